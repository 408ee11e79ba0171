"""What torch.save does to files that are there already, and what an interrupted or refused one leaves."""

import io
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._files import archive as _archive
from mindtorch_v2._files import target as _target


class Unpicklable:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("zipped", [True, False])
def test_interrupted_save_leaves_the_old_file(tmp_path: pathlib.Path, zipped: bool) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    with pytest.raises(KeyboardInterrupt):
        torch.save([torch.zeros(10), Unpicklable()], path, _use_new_zipfile_serialization=zipped)
    assert torch.load(path).tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["a.pt"]


def test_full_disk_leaves_the_old_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    put = _archive.Writer.put

    def full(self: Any, data: Any) -> None:
        if self.position > 1000:
            raise OSError(28, "No space left on device")
        put(self, data)

    monkeypatch.setattr(_archive.Writer, "put", full)
    with pytest.raises(OSError, match="No space left"):
        torch.save(torch.zeros(1000), path)
    assert torch.load(path).tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["a.pt"]


def save_killed_at(path: pathlib.Path, where: str) -> None:
    """Saves in a process that is killed when it comes to the function `where`."""
    program = (
        "import os, signal, sys, mindtorch_v2 as torch\n"
        "from mindtorch_v2._files import archive as _archive, target as _target\n"
        "_target._UNNAMED *= sys.argv[2] != 'named'\n"
        "module, name = {'named': (_archive.Writer, 'close')}.get(sys.argv[2]) or eval(sys.argv[2])\n"
        "setattr(module, name, lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL))\n"
        "torch.save(torch.zeros(100000), sys.argv[1])\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", program, str(path), where], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="files without names")
@pytest.mark.parametrize("where", ["(_archive.Writer, 'close')", "(os, 'fsync')", "(os, 'link')"])
def test_killed_save_leaves_the_old_file_and_nothing_else(tmp_path: pathlib.Path, where: str) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    save_killed_at(path, where)
    assert torch.load(path).tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("where", ["named", "(os, 'replace')"])
def test_what_a_killed_save_had_to_name_is_removed_by_the_next(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    save_killed_at(path, where)
    assert len(os.listdir(tmp_path)) == 2
    if where == "named":
        monkeypatch.setattr(_target, "_UNNAMED", 0)
    torch.save(torch.zeros(2), path)
    assert torch.load(path).tolist() == [0, 0]
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("where", ["named", "(os, 'replace')"])
def test_what_a_killed_save_had_to_name_is_removed_by_a_load(tmp_path: pathlib.Path, where: str) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    save_killed_at(path, where)
    torch.save(torch.ones(3), tmp_path / "other.pt")
    assert len(os.listdir(tmp_path)) == 3
    assert torch.load(path).tolist() == [1, 1]
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "other.pt"]


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_a_load_leaves_the_draft_of_a_living_save(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_target, "_UNNAMED", 0)
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    with _target.target(path, zipped=True) as (first, _), _target.target(path, zipped=True) as (second, _):
        assert torch.load(path).tolist() == [1, 1]
        assert len(os.listdir(tmp_path)) == 3
        torch.save(torch.zeros(1), second)
        torch.save(torch.zeros(4), first)
    assert torch.load(path).tolist() == [0, 0, 0, 0]
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.fixture(params=["unnamed", "named"])
def drafts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system with files that have no names until they are complete, and on one without."""
    if request.param == "named":
        monkeypatch.setattr(_target, "_UNNAMED", 0)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
@pytest.mark.usefixtures("drafts")
def test_permissions_and_links_stay(tmp_path: pathlib.Path) -> None:
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    before = os.umask(0o027)
    try:
        torch.save(torch.ones(2), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        link.symlink_to(path)
        torch.save(torch.zeros(2), link)
    finally:
        os.umask(before)
    assert link.is_symlink() and torch.load(path).tolist() == [0, 0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.usefixtures("drafts")
def test_nobody_else_can_read_a_private_checkpoint_while_it_is_saved(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(1, path)
    path.chmod(0o600)
    modes: list[int] = []

    class Looks:
        def __reduce__(self) -> tuple:
            modes.extend(stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir())
            return int, ()

    before = os.umask(0)
    try:
        torch.save([Looks()], path)
    finally:
        os.umask(before)
    assert modes and set(modes) == {0o600}


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may give files away")
@pytest.mark.usefixtures("drafts")
def test_the_owner_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(1, path)
    os.chown(path, 1234, 4321)
    torch.save(2, path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321) and torch.load(path) == 2


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_hard_links_stay(tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(torch.ones(2), first)
    second.hardlink_to(first)
    torch.save(torch.zeros(2), first)
    assert torch.load(second).tolist() == [0, 0] and first.samefile(second)
    for zipped in (True, False):
        with pytest.raises(KeyboardInterrupt):
            torch.save([torch.ones(2), Unpicklable()], first, _use_new_zipfile_serialization=zipped)
    assert torch.load(second).tolist() == [0, 0]


@pytest.mark.usefixtures("drafts")
def test_a_file_in_a_folder_that_takes_no_new_ones(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.ones(2), path)
    opened = os.open

    def refused(name: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_CREAT | _target._UNNAMED):
            raise PermissionError(13, "Permission denied", name)
        return opened(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refused)
    torch.save(torch.zeros(3), path)
    with pytest.raises(RuntimeError, match="open file failed with strerror: Permission denied"):
        torch.save(1, tmp_path / "b.pt")
    with pytest.raises(PermissionError):
        torch.save(1, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    monkeypatch.undo()
    assert torch.load(path).tolist() == [0, 0, 0] and os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.usefixtures("drafts")
def test_a_file_that_no_other_can_replace(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.zeros(10_000), path)

    def busy(*args: object, **places: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    torch.save(torch.ones(2), path)
    monkeypatch.undo()
    assert torch.load(path).tolist() == [1, 1] and os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write to every file")
def test_a_file_that_may_not_be_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(1, path)
    path.chmod(0o400)
    with pytest.raises(RuntimeError, match="Permission denied"):
        torch.save(2, path)
    assert torch.load(path) == 1


def test_whoever_has_an_empty_file_open_sees_what_is_saved_in_it(tmp_path: pathlib.Path) -> None:
    with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
        torch.save(5, file.name)
        assert torch.load(file) == torch.load(file.name) == 5


@pytest.mark.usefixtures("drafts")
def test_long_names(tmp_path: pathlib.Path) -> None:
    path = tmp_path / ("ä" * 125 + ".pt")  # 253 bytes
    for value in (1, 2):
        torch.save(value, path)
        assert torch.load(path) == value
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_is_written_to(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    torch.save(5, tmp_path / "pipe")
    assert torch.load(io.BytesIO(os.read(reader, 1 << 16))) == 5
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.usefixtures("drafts")
def test_two_saves_at_once(tmp_path: pathlib.Path) -> None:
    """One after the other takes the place of the file, each as a whole, and nothing is left."""
    path = tmp_path / "a.pt"
    torch.save(torch.zeros(1000), path)

    def save(number: float) -> None:
        for _ in range(10):
            torch.save(torch.full((1000,), number), path)

    threads = [threading.Thread(target=save, args=(float(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    found = [torch.load(path) for _ in range(50)]
    for thread in threads:
        thread.join()
    assert all(bool((one == one[0]).all()) for one in (*found, torch.load(path)))
    assert os.listdir(tmp_path) == ["a.pt"]
