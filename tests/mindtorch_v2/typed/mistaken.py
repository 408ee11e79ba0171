"""Mistakes that type checkers find: each line that ends in `wrong`, and no other."""

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn, optim

x = torch.randn(2, 3)
torch.softmax(x, dimension=0)  # wrong
torch.softmax(x, "0")  # wrong
torch.softmax(x, 0, out=3)  # wrong
torch.sotmax(x, 0)  # wrong
torch.zeros(2, dtype="float32")  # wrong
torch.zeros(2, device=1.5)  # wrong
torch.randn(2, generator=0)  # wrong
torch.linalg.svdd(x)  # wrong
torch.fft.fft(x, n="4")  # wrong
torch.special.expit(x, x, x)  # wrong
F.relu(x, inplac=True)  # wrong
F.cross_entropyy(x, x)  # wrong
F.cross_entropy(x)  # wrong
F.gelu(x, approximate=3)  # wrong
x.viw(3, 2)  # wrong
x.view("a")  # wrong
x.sum(keepdim="yes")  # wrong
x.add_(1, beta=2)  # wrong
x.max(0).value  # wrong
x.max().indexes  # wrong
x + "1"  # wrong
nn.Linear(2)  # wrong
nn.Lineal(2, 3)  # wrong
nn.GELU(approximat="tanh")  # wrong
nn.CrossEntropyLoss(ignore_index="none")  # wrong
nn.MaxPool2d()  # wrong
optim.Adam(x.shape, lr="fast")  # wrong
count: int = x.relu()  # wrong
size: list[str] = x.tolist() or list(x.size())
value, index = torch.max(x, 0)
index.values()
