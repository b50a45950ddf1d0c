"""Every setting of a run as frozen dataclasses. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from tsimpute.config import registry
from tsimpute.errors import ConfigError

MASK_POLICIES = ("random", "historical", "mix", "gaps", "varied")
"""Names of the package's own mask policies."""

types_of = cache(get_type_hints)
"""Types of a class's fields, evaluated once: a suite makes thousands of settings."""


@dataclass(frozen=True)
class DataConfig:
    """Which records.

    Attributes:
        name: data set, by the name of its adapter; see ``tsimpute.config.registry`` for what else it may be.
        root: folder of its files; None = TSIMPUTE_DATA, then the user cache.
        options: the adapter's own options.
    """

    name: str = "synthetic"
    root: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _name_plugin(self, "datasets")


@dataclass(frozen=True)
class ProtocolConfig:
    """What is shown, hidden and scored.

    Example:
        >>> ProtocolConfig("clean", rate=0.5).rate
        0.5

    Attributes:
        name: "clean" (nothing of the held-out cells seen anywhere), "csdi" (exactly as the original) or "transductive"
            (the records that are learnt from are filled).
        rate: share of each record's observed cells that is held out; None = the data set's own held-out cells.
        mechanism: how the cells are chosen where ``rate`` is given: "random", "blocks", ...; not with "csdi".
            "transductive" has further ones, drawn over a whole table: "mcar_exact", "mar_logistic", "ampute".
        fold: which of the five test folds, where the data set prescribes no split; of "transductive", which mask.
        seed: of the split and of the holes.
        limits: "card" = what lies outside the limits on the data set's card is made missing, and all that is drawn lies
            within; "none" = the data as they are.
    """

    name: Literal["clean", "csdi", "transductive"] = "clean"
    rate: float | None = 0.1
    mechanism: str = "random"
    fold: int = 0
    seed: int = 1
    limits: Literal["none", "card"] = "none"


@dataclass(frozen=True)
class NetworkConfig:
    """The backbone.

    Example:
        >>> NetworkConfig(options={"width": 32, "n_heads": 4}).name
        'context_cells'

    Attributes:
        name: of its file, or an import path; a class, too, see ``tsimpute.config.registry``.
        options: its own settings (width, n_heads, n_blocks, ...).
        base: the base estimate, whose residual the network learns. "none" = the values themselves; "linear" = linear
            interpolation, which pays where training is short and gaps are; "gaussian" = the posterior mean of a
            Gaussian process that is fitted first, in units of its posterior standard deviation.
    """

    name: str = "context_cells"
    options: dict[str, Any] = field(default_factory=dict)
    base: Literal["none", "linear", "gaussian"] = "none"

    def __post_init__(self) -> None:
        _name_plugin(self, "backbones")


@dataclass(frozen=True)
class ProcessConfig:
    """The process between noise and data.

    Example:
        >>> ProcessConfig("diffusion").options
        {}

    Attributes:
        name: of its file, or an import path; in Python a class or an instance, too, see ``tsimpute.config.registry``.
        options: its own settings.
    """

    name: str = "flow_matching"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _name_plugin(self, "processes")


@dataclass(frozen=True)
class TrainingConfig:
    """The training loop; the defaults are the paper's (Appendix A.4, Simkus and Gutmann 2025).

    Example:
        >>> TrainingConfig(epochs=10, schedule="cosine").batch_size
        16

    Attributes:
        epochs: passes over the training records; the schedule spans them.
        batch_size: records per optimiser step, over all processes.
        micro_batch: records computed together; changes memory and speed, and weights in the last bits only. On a CPU as
            many such parts of a batch are computed side by side as torch may use threads.
        max_steps: optimiser steps in all, in place of ``epochs``; the last epoch ends there. None = ``epochs`` decides.
        learning_rate, weight_decay: of AdamW.
        warmup_steps: steps over which the learning rate rises evenly from 0.
        schedule: "steps" (falls at ``milestones``) or "cosine" (falls along half a cosine to 0 at the last step).
        milestones, decay: shares of all steps at which the learning rate is multiplied, and by what; "steps" only.
        clip_norm: largest norm of the gradient.
        ema: decay per step of the moving average of weights that is validated and kept; None = no average.
        mask_policy: how targets are chosen among observed cells: "random", "historical", "mix", "gaps" or "varied"; or
            an import path of a function from training records to a mask policy, see ``tsimpute.batches.masking``.
        masks_per_record: with the base "gaussian" only: different masks that each record gets over the epochs. The
            posterior of each takes time once, and memory.
        base_folds: with the base "gaussian" only: number of folds of cross-fitting. The folds are runs of consecutive
            records, and the posterior of each comes from a process that is fitted to the other folds. A process is too
            sure of the records that it was fitted to; where the records to impute are others (other months, other
            people), training should not see that. 1 = one process for all, for series that are imputed themselves.
        query_unobserved: share of records in which all unobserved cells are queried beside the targets, as in use,
            where every missing cell is; without a loss on them. Flow matching only.
        query_from: share of the epochs after which that begins.
        objective: what is minimised. "regression" = the process's own loss; "crps" = the score of two samples, drawn in
            the steps of ``sampling``, see ``tsimpute.generative.scoring``; "distillation" = the distance between
            samples so drawn and those of the model of ``start_from``, see ``tsimpute.generative.distillation``.
        start_from: model file whose weights, scaler and base training begins with. None = new weights.
        patience: stop after so many epochs without a better validation loss, and keep the best; None = never stop
            early, and keep the last.
        seed: of order, masks, times and noise.
        checkpoint_minutes: longest time between two states on disk.
        keep_epochs: epochs whose model is kept in a file of its own.
        max_minutes: stop after so many minutes of this call; None = never.
        accelerator, devices, precision: as in lightning-fabric; precision "32-true" or "bf16-mixed".
    """

    epochs: int = 200
    batch_size: int = 16
    micro_batch: int = 4
    max_steps: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    warmup_steps: int = 0
    schedule: Literal["steps", "cosine"] = "steps"
    milestones: tuple[float, ...] = (0.75, 0.9)
    decay: float = 0.1
    clip_norm: float = 2.0
    ema: float | None = None
    mask_policy: str = "random"
    masks_per_record: int = 4
    base_folds: int = 1
    query_unobserved: float = 0.0
    query_from: float = 0.9
    objective: Literal["regression", "crps", "distillation"] = "regression"
    start_from: str | None = None
    patience: int | None = None
    seed: int = 0
    checkpoint_minutes: float = 2.0
    keep_epochs: tuple[int, ...] = ()
    max_minutes: float | None = None
    accelerator: str = "cpu"
    devices: int = 1
    precision: Literal["32-true", "bf16-mixed"] = "32-true"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "micro_batch", "masks_per_record", "base_folds", "devices"):
            count = getattr(self, name)
            _require(isinstance(count, int) and count >= 1, f"training.{name}", "a whole number from 1", count)
        steps = self.max_steps
        ok = steps is None or (isinstance(steps, int) and steps >= 1)
        _require(ok, "training.max_steps", "none or a whole number from 1", steps)
        counts_epochs = self.query_unobserved > 0 and steps is not None
        _require(not counts_epochs, "training.max_steps", "none with query_unobserved, which counts epochs", steps)
        policy = registry.named("mask_policies", self.mask_policy)[0]
        object.__setattr__(self, "mask_policy", policy)
        expected = f"one of {', '.join(MASK_POLICIES)}, or an import path as package.module:function"
        known = policy in MASK_POLICIES or registry.is_known("mask_policies", policy)
        _require(known, "training.mask_policy", expected, policy)
        for name in ("schedule", "objective", "precision"):
            known = get_args(types_of(TrainingConfig)[name])
            _require(
                getattr(self, name) in known, f"training.{name}", f"one of {', '.join(known)}", getattr(self, name)
            )
        for name in ("learning_rate", "clip_norm"):
            _require(getattr(self, name) > 0, f"training.{name}", "a positive number", getattr(self, name))
        for name in ("weight_decay", "checkpoint_minutes", "warmup_steps"):
            _require(getattr(self, name) >= 0, f"training.{name}", "0 or more", getattr(self, name))
        sought = self.objective != "distillation" or self.start_from is not None
        _require(sought, "training.start_from", "with objective distillation the file of a model", self.start_from)
        _require(0 < self.decay <= 1, "training.decay", "a number in (0, 1]", self.decay)
        for name in ("query_unobserved", "query_from"):
            _require(0 <= getattr(self, name) <= 1, f"training.{name}", "a share in [0, 1]", getattr(self, name))
        _require(self.ema is None or 0 <= self.ema < 1, "training.ema", "none or a number in [0, 1)", self.ema)
        _require(all(0 < m < 1 for m in self.milestones), "training.milestones", "shares in (0, 1)", self.milestones)
        _require(self.patience is None or self.patience >= 1, "training.patience", "none or at least 1", self.patience)


@dataclass(frozen=True)
class SamplingConfig:
    """The sampler.

    Example:
        >>> SamplingConfig(solver="heun", n_steps=4).device
        'cpu'

    Attributes:
        solver: by the name of its file or an import path; None = the process's own default.
        n_steps: solver steps; None = the process's own default.
        grid_power: 1 = times evenly spaced, up to 2 = steps get shorter towards the data; None = the process's own
            default with its default solver, else 1.
        eta: 0 deterministic ... 1 ancestral, for the first-order solver; None = the process's own default.
        antithetic: draws come in pairs from opposite noise, so that their mean and median vary less. Each draw is as
            good as any, but the two of a pair are not independent, which fair CRPS takes them for.
        memory_mib: what the network may need while it draws, beside the program, the records and the draws of one
            record; decides how many draws of a record are computed together. An estimate; on a CPU less is used where
            more would be slower.
        rows_at_once: draws of one record computed together, whatever ``memory_mib`` says; None = as it says.
        device: where the network runs: "cpu", "cuda", "cuda:1", "mps".
    """

    solver: str | None = None
    n_steps: int | None = None
    grid_power: float | None = None
    eta: float | None = None
    antithetic: bool = False
    memory_mib: int = 1024
    rows_at_once: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not (self.solver is None or isinstance(self.solver, str)):
            name, options = registry.named("solvers", self.solver)
            eta = options.pop("eta", self.eta)
            _require(not options, "sampling.solver", "a solver without options other than eta", options)
            object.__setattr__(self, "solver", name)
            object.__setattr__(self, "eta", eta)
        _require(self.n_steps is None or self.n_steps >= 1, "sampling.n_steps", "none or at least 1", self.n_steps)
        power = self.grid_power
        _require(power is None or 1 <= power <= 2, "sampling.grid_power", "none or a number in [1, 2]", power)
        rows = self.rows_at_once
        _require(rows is None or rows >= 1, "sampling.rows_at_once", "none or at least 1", rows)
        _require(self.memory_mib >= 1, "sampling.memory_mib", "at least 1", self.memory_mib)
        _require(self.eta is None or 0 <= self.eta <= 1, "sampling.eta", "none or a number in [0, 1]", self.eta)


@dataclass(frozen=True)
class EvaluationConfig:
    """What is scored.

    Example:
        >>> EvaluationConfig(n_samples=100, fill="missing").units
        'standardised'

    Attributes:
        n_samples: draws per record.
        max_records: score only the first so many test records; None = all.
        at_epochs: epochs after which to score during training.
        fill: "scored" fills the held-out cells only, as in training; "missing" fills every missing cell, as in use.
        units: "standardised" (features of different units) or "data".
        seed: of the draws.
    """

    n_samples: int = 20
    max_records: int | None = None
    at_epochs: tuple[int, ...] = ()
    fill: Literal["scored", "missing"] = "scored"
    units: Literal["standardised", "data"] = "standardised"
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.n_samples >= 1, "evaluation.n_samples", "at least 1", self.n_samples)
        at_least_one = self.max_records is None or self.max_records >= 1
        _require(at_least_one, "evaluation.max_records", "none or at least 1", self.max_records)


@dataclass(frozen=True)
class RunConfig:
    """One run from raw files to a metric table.

    Example:
        >>> run = RunConfig(training=TrainingConfig(epochs=1))
        >>> run.data.name, run.process.name
        ('synthetic', 'flow_matching')
    """

    data: DataConfig = field(default_factory=DataConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    process: ProcessConfig = field(default_factory=ProcessConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        for name, epochs in (
            ("evaluation.at_epochs", self.evaluation.at_epochs),
            ("training.keep_epochs", self.training.keep_epochs),
        ):
            within = all(1 <= epoch <= self.training.epochs for epoch in epochs)
            _require(within, name, f"epochs from 1 to {self.training.epochs}", epochs)


def _require(ok: bool, name: str, expected: str, came: object) -> None:
    if not ok:
        raise ConfigError(f"{name}: expected {expected}, came {came}.")


def named_parts(process: ProcessConfig, network: NetworkConfig, sampling: SamplingConfig) -> dict[str, str]:
    """By kind, the plug-ins that settings name."""
    solver = {} if sampling.solver is None else {"solvers": sampling.solver}
    return {"processes": process.name, "backbones": network.name, **solver}


def training_parts(config: RunConfig) -> dict[str, str]:
    """By kind, the plug-ins that the settings of a training name, its data and mechanism apart."""
    return named_parts(config.process, config.network, config.sampling) | {"mask_policies": config.training.mask_policy}


def _name_plugin(config: Any, kind: str) -> None:
    """Puts name and options in the place of a class or an instance."""
    name, options = registry.named(kind, config.name)
    object.__setattr__(config, "name", name)
    object.__setattr__(config, "options", options | config.options)
