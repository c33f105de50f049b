"""Hospitals as nodes on disk, and an engine that only calls functions."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sudare import site
from sudare.exchange import load_keyring
from sudare.federation import Settings, answer
from sudare.federation._messages import Answer, QuestionTerms, read_answer, terms_of, to_bytes
from sudare.ledger import Account, Ledger
from sudare.pooling import read_plan
from sudare.site import Model, load_model
from sudare.study import read_study
from tests.site.clinics import CLASSES, Clinic, clinic, keyring

STUDY = CLASSES.format(model="moments", epsilon=4.0)
AT_ONCE = Settings(min_nodes=1, wait_seconds=0.0, phase_seconds=5.0)


@dataclass
class Hospital:
    """One node: its folder, its configuration, and what a test wants to know of it."""

    folder: Path
    clinic: Clinic

    @property
    def configuration(self) -> Path:
        return self.folder / "node.toml"

    @property
    def account(self) -> Account:
        with Ledger(self.clinic.ledger) as ledger:
            (name,) = ledger.datasets()
            return ledger.account(name)

    @property
    def model(self) -> Model:
        return load_model(self.folder / "model.json")

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = (self.folder / "federation.log").read_text().splitlines()
        return [msgspec.json.decode(line) for line in lines]

    def ask(self, question: Any) -> Answer:
        data = question if isinstance(question, bytes) else to_bytes(question)
        return read_answer(answer(data, self.configuration))

    def policy(self, **settings: object) -> None:
        """Another policy, in the node's own file."""
        lines = "\n".join(f"{k} = {str(v).lower()}" for k, v in settings.items())
        text = self.configuration.read_text().split("[policy]")[0]
        self.configuration.write_text(f"{text}[policy]\nanswer_seconds = 0\n{lines}\n")

    def by_folder(self, *shared: Path) -> Model:
        """The model that `sudare blend` makes from shared folders or files."""
        study = read_study(self.folder / "study.toml")
        places = [str(place) for place in shared]
        checked = site.collect(places, load_keyring(self.folder / "trust.toml"), study)
        own = self.clinic.key.public.fingerprint
        return site.blend(self.clinic.data, study, checked, party=self.clinic.name, key=own)

    @property
    def pool(self) -> site.Pool:
        """The pool of its plan, in the folder that it keeps for itself."""
        return site.Pool(
            read_study(self.folder / "study.toml"),
            read_plan(self.folder / "pool.toml"),
            load_keyring(self.folder / "trust.toml"),
            str(self.folder / "releases"),
        )

    @property
    def pooled(self) -> Path:
        """Where it has the sum, if it has it."""
        return Path(self.pool.folder) / "pooled.release"


def hospitals(
    folder: Path, count: int, *, rows: int = 24, cap: float = 4.0, study: str = STUDY
) -> list[Hospital]:
    """Nodes that trust each other, each with a folder of its own."""
    made = []
    for k in range(count):
        place = folder / f"node{k}"
        place.mkdir(parents=True)
        made.append(Hospital(place, clinic(place, f"Hospital {k}", seed=k, rows=rows, cap=cap)))
    ring = keyring(*(each.clinic for each in made)).to_toml()
    for each in made:
        each.clinic.key.save(each.folder / "key.json")
        (each.folder / "study.toml").write_text(study)
        (each.folder / "trust.toml").write_text(ring)
        each.configuration.write_text(
            f'party = "{each.clinic.name}"\ndata = "{each.clinic.data.name}"\n'
            f'ledger = "{each.clinic.ledger.name}"\n[policy]\n'
        )
        each.policy()
    return made


def agree_on_pool(made: list[Hospital], **terms: Any) -> None:
    """The plan of a pool of all of them, at each of them."""
    study = read_study(made[0].folder / "study.toml")
    plan = site.new_plan(study, keyring(*(each.clinic for each in made)), **terms)
    for each in made:
        (each.folder / "pool.toml").write_text(plan.to_toml())
        text = each.configuration.read_text()
        if "pool =" not in text:
            each.configuration.write_text('pool = "pool.toml"\n' + text)


def agreed(hospital: Hospital, **changed: Any) -> QuestionTerms:
    """The terms of a hospital's study, or a server's version of them."""
    return msgspec.structs.replace(terms_of(read_study(hospital.folder / "study.toml")), **changed)


def same(one: Model, other: Model) -> bool:
    """Equal to the last bit, but for the second at which they were made."""
    return one.to_bytes() == msgspec.structs.replace(other, moment=one.moment).to_bytes()


@dataclass
class Wire:
    """An engine without processes; `broken` says what becomes of a node's answer."""

    hospitals: list[Hospital]
    broken: Mapping[tuple[int, int], Callable[[bytes], bytes | None]] = field(default_factory=dict)
    """By node and phase: other bytes instead of the answer, or None for silence."""
    late: set[int] = field(default_factory=set)
    """Nodes that connect only after phase 1."""
    phase: int = 0

    def nodes(self) -> list[int]:
        here = range(len(self.hospitals))
        return [node for node in here if self.phase > 0 or node not in self.late]

    def ask(
        self, question: bytes, nodes: Collection[int], seconds: float, grace: float
    ) -> dict[int, bytes]:
        self.phase += 1
        answers = {}
        for node in nodes:
            change = self.broken.get((node, self.phase))
            data = change(question) if change else None
            if change is None:
                data = answer(question, self.hospitals[node].configuration)
            if data is not None:
                answers[node] = data
        return answers
