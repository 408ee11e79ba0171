"""Machine code for the CPU: LLVM IR compiled with llvmlite, kept on disk, run on several cores."""
