"""The Ascend NPU: CANN's runtime and operators through their C interface."""
