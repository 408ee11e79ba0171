"""Image programs: super resolution, distillation with pruning, mixed precision, style transfer, contrastive pairs."""

import copy
import io

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, WeightedRandomSampler, random_split


class Shapes(Dataset):
    """Images of noise with a bright quarter, which is the label."""

    def __init__(self, n):
        generator = torch.Generator().manual_seed(5)
        self.y = torch.randint(0, 4, (n,), generator=generator)
        self.x = torch.rand(n, 1, 8, 8, generator=generator) * 0.5
        for x, y in zip(self.x, self.y.tolist()):
            x[0, 4 * (y // 2): 4 * (y // 2) + 4, 4 * (y % 2): 4 * (y % 2) + 4] += 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Alternating(Sampler):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter([*range(0, self.n, 2), *range(1, self.n, 2)])

    def __len__(self):
        return self.n


class Clamped(torch.autograd.Function):
    """Rounds forward, passes gradients of values inside [0, 1]."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(0, 1).mul(15).round() / 15

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ((x >= 0) & (x <= 1))


def classifier(width):
    return nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Conv2d(width, width, 3, groups=2), nn.GroupNorm(2, width), nn.SiLU(),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4 * width, 4))


torch.manual_seed(2)
data = Shapes(48)
train_set, test_set = random_split(data, [36, 12])
print(train_set.indices[:6], test_set.indices[:6])

teacher = classifier(8)
optimizer = torch.optim.NAdam(teacher.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in DataLoader(train_set, batch_size=12, shuffle=True, num_workers=2 * epoch, drop_last=True):
        loss = F.cross_entropy(teacher(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"teacher {epoch} {loss.item():.5f}")
teacher.eval()

seen = {}
handle = teacher[4].register_forward_hook(
    lambda m, args, out: seen.update(shape=tuple(out.shape), mean=out.mean().item()))
teacher(data.x[:3])
handle.remove()
print(seen["shape"], f"{seen['mean']:.5f}")

student = classifier(4)
optimizer = torch.optim.Adagrad(student.parameters(), lr=2e-2)
for x, _ in DataLoader(data, batch_size=16, sampler=WeightedRandomSampler([1.0] * 24 + [3.0] * 24, 48)):
    with torch.no_grad():
        soft = F.log_softmax(teacher(x) / 2, -1)
    loss = F.kl_div(F.log_softmax(student(x) / 2, -1), soft, reduction="batchmean", log_target=True) * 4
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"student {loss.item():.5f}")
prune.l1_unstructured(student[10], "weight", amount=0.3)
prune.ln_structured(student[4], "weight", amount=0.5, n=2, dim=0)
print(sorted(student[10]._buffers), (student[10].weight == 0).sum().item(), (student[4].weight == 0).sum().item())
for i in (4, 10):
    prune.remove(student[i], "weight")

file = io.BytesIO()
torch.save(student, file)
file.seek(0)
again = torch.load(file, weights_only=False).eval()
print(torch.equal(again(data.x), student.eval()(data.x)), again)

upscale = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))
optimizer = torch.optim.LBFGS(upscale.parameters(), max_iter=4, line_search_fn="strong_wolfe")
small = F.interpolate(data.x[:8], scale_factor=0.5, mode="bicubic", align_corners=False)


def closure():
    optimizer.zero_grad()
    loss = F.smooth_l1_loss(upscale(small), data.x[:8])
    loss.backward()
    return loss


for step in range(3):
    print(f"super resolution {step} {optimizer.step(closure).item():.6f}")

image = data.x[:1].clone().requires_grad_()
optimizer = torch.optim.Adam([image], lr=0.05)


def gram(x):
    flat = teacher[:3](x).flatten(2)
    return torch.baddbmm(torch.zeros(()), flat, flat.mT, alpha=1 / flat.shape[-1])


with torch.no_grad():
    style = gram(data.x[1:2])
for step in range(4):
    optimizer.zero_grad()
    loss = 100 * F.mse_loss(gram(Clamped.apply(image)), style) + (image - data.x[:1]).abs().mean()
    loss.backward()
    optimizer.step()
    print(f"style {step} {loss.item():.5f} {image.grad.abs().sum().item():.5f}")

one, two = classifier(4), copy.deepcopy(student)
temperature = nn.Parameter(torch.tensor(2.0))
optimizer = torch.optim.AdamW([{"params": [*one.parameters(), *two.parameters()]}, {"params": temperature, "lr": 0.1}],
                              lr=1e-2)
for x, _ in DataLoader(data, batch_size=16, sampler=Alternating(48)):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a, b = one(x), two(x.flip(-1))
    logits = F.normalize(a.float(), dim=-1) @ F.normalize(b.float(), dim=-1).T * temperature.exp()
    loss = (F.cross_entropy(logits, torch.arange(16)) + F.cross_entropy(logits.T, torch.arange(16))) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"pairs {a.dtype} {loss.item():.2f} {temperature.item():.3f}")
anchor, other = one(data.x[:8]), one(data.x[8:16])
print(f"{F.triplet_margin_loss(anchor, other, other.flip(0)).item():.2f}",
      f"{F.cosine_embedding_loss(anchor, other, torch.ones(8)).item():.2f}",
      list(RandomSampler(range(5), generator=torch.Generator().manual_seed(0))))
