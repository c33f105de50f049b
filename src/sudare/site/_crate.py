"""A record as an RO-Crate 1.2, in the words of the Five Safes profile: for a trusted research
environment.

    safe project   the study, as a Project with its contract as a file
    safe people    the organisation that signs
    safe data      each data set by its name and cap; nothing of the data is in the crate
    safe setting   the software that drew the noise
    safe output    one CreateAction for each entry, one disclosure check for each data set

The profile itself asks for a workflow crate as the main entity. A release is a command and no
workflow, so the crate claims to be an RO-Crate and does not claim the profile (Soiland-Reyes and
Wheater 2023, version 0.4).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from sudare import __version__
from sudare.foundations import checks
from sudare.site._record import Record, read_record
from sudare.storage.files import replace_file
from sudare.study import read_study

METADATA, RECORD, STUDY = "ro-crate-metadata.json", "ledger.jsonl", "study.toml"
_CRATE = "https://w3id.org/ro/crate/1.2"
_DISCLOSURE = "https://w3id.org/shp#DisclosureCheck"
_DONE = "http://schema.org/CompletedActionStatus"
_OPEN = "http://schema.org/PotentialActionStatus"


def write_crate(folder: Path, data: bytes, party: str, study: Path | None = None) -> list[Path]:
    """Write the crate of a record to a new folder; what was written."""
    record = read_record(data)
    described = None if study is None else read_study(study)
    files = {RECORD: data}
    if study is not None:
        files[STUDY] = study.read_bytes()
    title = "a study" if described is None else described.name
    graph = [*_about(files, title, party, record), *_outputs(record)]
    files[METADATA] = json.dumps(
        {"@context": f"{_CRATE}/context", "@graph": graph}, indent=2, ensure_ascii=False
    ).encode()
    try:
        folder.mkdir(parents=True)
        for name, content in files.items():
            replace_file(folder / name, content, 0o644)
    except FileExistsError:
        raise checks.InvalidInput(f"{folder} exists: a crate gets a folder of its own") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {folder}: {problem.strerror}") from None
    return [folder / name for name in files]


def _about(files: dict[str, bytes], study: str, party: str, record: Record) -> list[dict[str, Any]]:
    terms = "For the environment that asked for it; the licence is for the parties to agree on."
    kinds = {RECORD: "application/jsonl", STUDY: "application/toml"}
    names = {RECORD: "What was spent, entry by entry, hash-chained", STUDY: "The study's contract"}
    mentioned = [f"#entry-{n}" for n in _numbers(record)]
    mentioned += [f"#disclosure-{n}" for n in range(1, len(record.accounts) + 1)]
    return [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": _to("./"),
            "conformsTo": _to(_CRATE),
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Privacy ledger of {party} for {study}",
            "description": "Every differentially private release of these data sets, its price "
            "and its receipt. No row and no released number is in it.",
            "datePublished": record.moment,
            "license": _to("#terms"),
            "hasPart": [_to(name) for name in files],
            "mentions": [_to(each) for each in mentioned],
            "publisher": _to("#party"),
            "sourceOrganization": _to("#project"),
        },
        {"@id": "#terms", "@type": "CreativeWork", "name": "Terms of use", "description": terms},
        {"@id": "#project", "@type": "Project", "name": study, "member": [_to("#party")]},
        {"@id": "#party", "@type": "Organization", "name": party},
        {
            "@id": "#sudare",
            "@type": "SoftwareApplication",
            "name": "sudare",
            "softwareVersion": __version__,
        },
        *(
            {
                "@id": name,
                "@type": "File",
                "name": names[name],
                "encodingFormat": kinds[name],
                "contentSize": str(len(content)),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            for name, content in files.items()
        ),
    ]


def _outputs(record: Record) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, account in enumerate(record.accounts, 1):
        data = f"#data-{number}"
        found.append(
            {
                "@id": data,
                "@type": "Dataset",
                "name": account.dataset,
                "description": f"Stays with its organisation. Everything released from it together "
                f"may cost ε = {account.epsilon:g} at δ = {account.delta:g}.",
            }
        )
        for entry in account.entries:
            found.append(
                {
                    "@id": f"#entry-{entry.number}",
                    "@type": "CreateAction",
                    "name": entry.purpose or "a release",
                    "endTime": entry.moment,
                    "actionStatus": _DONE if entry.released else _OPEN,
                    "agent": _to("#party"),
                    "instrument": _to("#sudare"),
                    "object": _to(data),
                }
            )
        spent = account.enforced.epsilon if account.entries else 0.0
        found.append(
            {
                "@id": f"#disclosure-{number}",
                "@type": "AssessAction",
                "additionalType": _to(_DISCLOSURE),
                "name": f"ε = {spent:.6g} of {account.epsilon:g} spent at δ = {account.delta:g}: "
                f"{'over' if account.overdrawn else 'within'} the cap",
                "endTime": record.moment,
                "actionStatus": _DONE,
                "agent": _to("#sudare"),
                "instrument": _to("#sudare"),
                "object": _to(data),
            }
        )
    return found


def _numbers(record: Record) -> list[int]:
    return sorted(entry.number for account in record.accounts for entry in account.entries)


def _to(identifier: str) -> dict[str, str]:
    return {"@id": identifier}
