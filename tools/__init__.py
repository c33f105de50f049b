"""Scripts that the build uses."""
