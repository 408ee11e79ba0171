"""Variables that launchers set: torchrun's, and those of the starters of MPI programs."""

import os

__all__ = ["adopt_mpi_environment", "from_environment", "mpi_rank", "started_by_mpi"]

# rank, number of processes, rank and number on this host: Open MPI, then MPICH and those that follow it
_STARTERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
)


def from_environment(name: str) -> str:
    """A variable that a launcher sets."""
    value = os.environ.get(name)
    if value is None:
        raise ValueError("Error initializing torch.distributed using env:// rendezvous: environment variable "
                         f"{name} expected, but not set")
    return value


def mpi_rank() -> tuple[int, int] | None:
    """Rank and number of processes that mpiexec gave; None if it did not start this process."""
    for rank, size, *_ in _STARTERS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return None


def started_by_mpi() -> bool:
    """Whether mpiexec gave this process its rank, and no other launcher came in between."""
    found = mpi_rank()
    return found is not None and os.environ.get("RANK", str(found[0])) == str(found[0]) and (
        os.environ.get("WORLD_SIZE", str(found[1])) == str(found[1])) and "TORCHELASTIC_RUN_ID" not in os.environ


def adopt_mpi_environment() -> None:
    """Sets the variables that programs read, as torchrun would, from those of mpiexec."""
    found = mpi_rank()
    if found is None:
        return
    os.environ.setdefault("RANK", str(found[0]))
    os.environ.setdefault("WORLD_SIZE", str(found[1]))
    for _, _, local_rank, local_size in _STARTERS:
        if local_rank in os.environ:
            os.environ.setdefault("LOCAL_RANK", os.environ[local_rank])
        if local_size in os.environ:
            os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ[local_size])
