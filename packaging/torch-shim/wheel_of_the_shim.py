"""The build backend of the shim: writes its wheel, which needs nothing but the standard library."""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ACTIVATION = "torch_is_mindtorch_v2.pth"


def _files() -> dict[str, str]:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = f"{project['name']}-{project['version']}.dist-info"
    metadata = [
        "Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {project['version']}",
        f"Summary: {project['description']}", f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {requirement}" for requirement in project["dependencies"]),
    ]
    return {
        ACTIVATION: (HERE / ACTIVATION).read_text(encoding="utf-8"),
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: mindtorch_v2\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Writes the wheel into a folder; its name comes back."""
    files = _files()
    *contents, record = files
    files[record] = "".join(
        f"{name},sha256={_digest(files[name])},{len(files[name].encode())}\n" for name in contents
    ) + f"{record},,\n"
    name = f"{record.partition('.dist-info')[0]}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for place, text in files.items():
            wheel.writestr(zipfile.ZipInfo(place), text)  # with a fixed date: the same wheel every time
    return name


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
