"""Records what layers compute that predict further tokens, of tiny models of tests/hf_models.py.

It needs torch 2.13.0, transformers 5.24.0 and safetensors:

    python scripts/record_further.py

writes tests/data/hf_further.npz. transformers has the layers, but leaves out those that predict further tokens. So the
model is built with one layer more, and what is around that one is computed here, after arXiv:2412.19437, section 2.2:
the layer reads W [norm(embedding of a token), norm(state of the token before)]; before the first token that is zero, as
in llama.cpp. Recorded are its logits for a text, and the tokens that it predicts one after the other behind the text.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402

CHAIN = 4  # tokens that follow a text


class Further:
    """A model with a layer more, whose tensors have the published names in a folder of the tests."""

    def __init__(self, kind: str) -> None:
        record = hf_models.record(kind)
        config, count = record["config"], record["config"]["num_hidden_layers"]
        shapes = hf_models.further_shapes(kind, config, record["shapes"])
        values = {name: torch.tensor(hf_models.weight(name, tuple(shape), 0)) for name, shape in shapes.items()}
        self.count, self.plus = count, 1.0 if kind.startswith("qwen") else 0.0
        names = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden",
                 "shared_head.norm": "norm"}  # fmt: skip
        self.own = {}
        for name, published in names.items():
            long = f"mtp.{published}.weight" if self.plus else f"model.layers.{count}.{name}.weight"
            self.own[name] = values.pop(long)
        for name in ("embed_tokens", "shared_head.head"):
            self.own[name] = values.pop(f"model.layers.{count}.{name}.weight", None)
        self.layer_types = [*config.get("layer_types", []), "full_attention"]
        config = {**config, "num_hidden_layers": count + 1}
        if len(self.layer_types) > 1:
            config["layer_types"] = self.layer_types
        if "mlp_layer_types" in config:
            config["mlp_layer_types"] = [*config["mlp_layer_types"], "sparse"]
        values = {name.replace("mtp.layers.0.", f"model.layers.{count}."): v for name, v in values.items()}
        with tempfile.TemporaryDirectory() as folder:
            hf_models.write_folder(Path(folder), config, {})
            hf_models.write_shard(Path(folder) / "model.safetensors", {k: v.numpy() for k, v in values.items()})
            cls = getattr(transformers, hf_models.KINDS[kind][1])
            self.model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        self.layers = self.model.model.layers
        self.eps = config["rms_norm_eps"]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)
        return x * (self.own[name] + self.plus)

    def run(self, layers: torch.nn.ModuleList, kinds: list[str], **inputs: torch.Tensor) -> torch.Tensor:
        """What some of the layers give, without the norm at the end."""
        base = self.model.model
        base.layers, norm, base.norm = layers, base.norm, torch.nn.Identity()
        if len(self.layer_types) > 1:
            base.config.layer_types = kinds
        x = base(**inputs, use_cache=False).last_hidden_state
        base.norm = norm
        return x

    def states(self, ids: list[int]) -> torch.Tensor:
        x = self.run(self.layers[: self.count], self.layer_types, input_ids=torch.tensor([ids]))
        return self.model.model.norm(x)

    def further(self, ids: list[int], before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and states after tokens, each with the state of the token before."""
        table = self.own["embed_tokens"]
        table = self.model.model.embed_tokens.weight if table is None else table
        x = torch.cat([self.norm(table[torch.tensor([ids])], "enorm"), self.norm(before, "hnorm")], -1)
        x = self.run(self.layers[self.count :], self.layer_types[-1:], inputs_embeds=x @ self.own["eh_proj"].T)
        x = self.norm(x, "shared_head.norm")
        head = self.own["shared_head.head"]
        return x @ (self.model.lm_head.weight if head is None else head).T, x


def main() -> None:
    found = {}
    for kind in hf_models.FURTHER:
        length = hf_models.LENGTHS[0]
        ids = hf_models.tokens(length)
        with torch.no_grad():
            further = Further(kind)
            states = further.states(ids)
            before, after = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1), ids
            logits, states = further.further(after, before)
            found[kind] = logits[0].numpy()[hf_models.rows(length)]
            chain: list[int] = []
            while len(chain) < CHAIN:
                chain.append(int(logits[0, -1].argmax()))
                before, after = torch.cat([before, states[:, -1:]], 1), [*after, chain[-1]]
                logits, states = further.further(after, before)
            found[f"{kind}.chain"] = np.array(chain)
        print(f"{kind}: values of variance {found[kind].var():.2g}, chain {chain}")
    np.savez_compressed(hf_models.FURTHER_DATA, **found)


if __name__ == "__main__":
    main()
