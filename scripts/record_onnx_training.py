"""Records what PyTorch computes for two networks that it exports to ONNX, for tests/onnx_models/test_onnx_training.py.

    pip install torch==2.13.0 onnx onnxscript && python scripts/record_onnx_training.py

Per network, the file has the model, a batch, the loss, the gradients, and the parameters after three steps of AdamW.
"""

import io
from pathlib import Path

import numpy as np
import torch
from torch import nn

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "onnx_training.npz"
RATE, DECAY, STEPS = 0.01, 0.1, 3


class Pictures(nn.Module):
    """Convolutions with normalisation, and a classifier."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, stride=2, padding=1),
            nn.GroupNorm(2, 6),
            nn.PReLU(),
            nn.Conv2d(6, 6, 3, groups=6),
            nn.Flatten(),
            nn.Linear(24, 8),
            nn.GELU(),
            nn.Linear(8, 3),
        )
        self.layers[1].running_mean.uniform_(-1, 1)
        self.layers[1].running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.layers(x)


class Words(nn.Module):
    """Attention and a recurrent layer over embedded words."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.lstm, self.head = nn.LSTM(8, 6, batch_first=True, bidirectional=True), nn.Linear(12, 2)

    def forward(self, words):
        x = self.embed(words)
        n, steps, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, steps, 3, 2, 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, steps, 8))
        y, _ = self.lstm(x)
        return self.head(torch.nn.functional.silu(y).mean(1))


def record(name, net, x, target, loss_of):
    """What is recorded of one network: arrays by name."""
    net.eval()
    file = io.BytesIO()
    torch.onnx.export(
        net,
        (x,),
        file,
        dynamo=False,
        opset_version=17,
        do_constant_folding=False,
        input_names=["x"],
        output_names=["y"],
    )
    arrays = {"model": np.frombuffer(file.getvalue(), np.uint8), "x": x.numpy(), "target": target.numpy()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    for step in range(STEPS):
        optimiser.zero_grad()
        y = net(x)
        loss = loss_of(y, target)
        loss.backward()
        if step == 0:
            arrays.update(loss=loss.detach().numpy(), y=y.detach().numpy())
            arrays.update((f"gradient/{n}", p.grad.numpy().copy()) for n, p in net.named_parameters())
        optimiser.step()
    arrays.update((f"trained/{n}", p.detach().numpy()) for n, p in net.named_parameters())
    return {f"{name}/{key}": value for key, value in arrays.items()}


def main():
    torch.manual_seed(0)
    labels = nn.functional.one_hot(torch.tensor([0, 2, 1, 2, 0]), 3).float()
    recorded = record("pictures", Pictures(), torch.randn(5, 1, 16, 16), labels, nn.functional.cross_entropy)
    words = torch.randint(0, 11, (3, 5))
    recorded.update(record("words", Words(), words, torch.randn(3, 2), nn.functional.mse_loss))
    recorded["settings"] = np.array([RATE, DECAY, STEPS])
    np.savez_compressed(DATA, **recorded)
    print(DATA, DATA.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
