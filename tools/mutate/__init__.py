"""Mutation testing: small faults put into a copy of the package, one at a time; tests must notice.

operators   which faults, on the syntax tree
modules     which tests know a module
running     a copy of the tree, a process a mutant
report      tables, and the mutants known to live with the reason why
"""
