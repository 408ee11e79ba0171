"""torch.utils.mobile_optimizer: programs for telephones need TorchScript, which is not here."""

from enum import Enum

from .._compat.absent import absent_function

optimize_for_mobile, generate_mobile_module_lints = (
    absent_function(f"torch.utils.mobile_optimizer.{name}")
    for name in ("optimize_for_mobile", "generate_mobile_module_lints"))


class LintCode(Enum):
    BUNDLED_INPUT, REQUIRES_GRAD, DROPOUT, BATCHNORM = 1, 2, 3, 4
