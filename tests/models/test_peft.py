"""Adapters of PEFT become GGUF files and these become adapters of PEFT (scripts/record_peft.py)."""

import json

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")


def folders_of(path, kind, shapes=None, **change):
    """The folders of a base and of its adapter, and the recorded logits."""
    record = hf_models.record(kind)
    with np.load(hf_models.PEFT) as data:
        config, known, logits = (data[f"{kind}/{part}"] for part in ("config", "shapes", "logits"))
    base = hf_models.write_folder(path / "base", record["config"], record["shapes"])
    config = {**json.loads(str(config)), "base_model_name_or_path": str(base), **change}
    adapter = hf_models.write_adapter(path / "adapter", config, shapes or json.loads(str(known)))
    return base, adapter, logits


@pytest.mark.parametrize("kind", hf_models.ADAPTERS)
def test_logits_are_those_of_peft(kind, tmp_path):
    base, adapter, expected = folders_of(tmp_path, kind)
    convert(adapter, tmp_path / "lora.gguf")
    with load(base, threads=1, kv_type="f32") as model:
        plain = hf_models.results_of(kind, model)
        model.set_lora(tmp_path / "lora.gguf")
        found = hf_models.results_of(kind, model)
        assert hf_models.error(found, expected) < 1e-9 < 1e-3 < hf_models.error(plain, expected)
        convert(tmp_path / "lora.gguf", tmp_path / "again", base=base)
        convert(tmp_path / "again", tmp_path / "second.gguf", base=base)
        model.set_lora(tmp_path / "second.gguf")
        assert hf_models.error(hf_models.results_of(kind, model), expected) < 1e-9


@pytest.mark.parametrize("kind", ["llama+llama3", "gpt2", "gptneox", "bert", "bert+classes"])
def test_the_way_back_has_the_names_and_values_of_peft(kind, tmp_path):
    base, adapter, _ = folders_of(tmp_path, kind)
    convert(adapter, tmp_path / "lora.gguf")
    convert(tmp_path / "lora.gguf", tmp_path / "again", base=base)
    given, found = (load_file(folder / "adapter_model.safetensors") for folder in (adapter, tmp_path / "again"))
    assert given.keys() == found.keys()
    assert all(np.array_equal(given[name], found[name]) for name in given)
    before, after = (
        json.loads((folder / "adapter_config.json").read_text()) for folder in (adapter, tmp_path / "again")
    )
    assert set(before["target_modules"]) == set(after["target_modules"])
    assert after["task_type"] == before.get("task_type", None if "classes" in kind else "CAUSAL_LM")
    assert after["r"] == before["r"] and after.get("fan_in_fan_out", False) == before.get("fan_in_fan_out", False)
    root = before["r"] ** 0.5 if before.get("use_rslora") else 1
    assert after["lora_alpha"] == pytest.approx(before["lora_alpha"] * root)


def test_the_way_back_has_the_modules_of_transformers(tmp_path):
    """Parts of a tensor, and parameters of experts, whose pairs become sums."""
    for kind, ranks in {"nomic-bert": (4, 5), "jina-bert-v3": (4,), "gpt-oss": (2, 4), "nemotron_h_moe": (2,)}.items():
        base, adapter, _ = folders_of(tmp_path / kind, kind)
        convert(adapter, tmp_path / kind / "lora.gguf")
        convert(tmp_path / kind / "lora.gguf", tmp_path / kind / "again", base=base)
        given, found = (
            load_file(folder / "adapter_model.safetensors") for folder in (adapter, tmp_path / kind / "again")
        )
        assert given.keys() <= found.keys()
        fused = [name for name in found if "lora_A" in name and any(p in name for p in ("k_proj", "v_proj", "experts"))]
        count = 4 if "experts" in " ".join(fused) else 1
        assert {len(found[name]) / count for name in fused} == set(ranks)


def test_adapters_of_finetune_become_those_of_peft(tmp_path):
    base, _, _ = folders_of(tmp_path, "llama+llama3")
    ids = hf_models.tokens(48)
    with load(base, threads=1, kv_type="f32") as model:
        model.finetune([ids] * 4, tmp_path / "lora.gguf", rank=4, steps=2, tokens=48, rate=1e-2)
        model.set_lora(tmp_path / "lora.gguf")
        expected = model.logits(ids)
        convert(tmp_path / "lora.gguf", tmp_path / "peft", base=base)
        convert(tmp_path / "peft", tmp_path / "same.gguf")
        model.set_lora(tmp_path / "same.gguf")
        assert np.allclose(model.logits(ids), expected, atol=1e-6)


def test_wrong_adapters_are_named(tmp_path):
    changes = {"peft_type": ("LOHA", "'peft_type' is 'LOHA': need 'LORA'"), "use_dora": (True, "'use_dora' is True"),
               "bias": ("all", "'bias' is 'all': need 'none'"), "lora_alpha": (-1, "'lora_alpha' is -1"),
               "modules_to_save": (["lm_head"], "'modules_to_save' is"),
               "base_model_name_or_path": ("elsewhere", "an adapter needs base")}  # fmt: skip
    for name, (value, message) in changes.items():
        _, adapter, _ = folders_of(tmp_path / name, "gpt2", **{name: value})
        with pytest.raises(ValueError, match=f"^convert: .*{message}"):
            convert(adapter, tmp_path / "lora.gguf")
    names = {"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight": [3, 64]}
    _, adapter, _ = folders_of(tmp_path / "half", "gpt2", names)
    with pytest.raises(ValueError, match="'transformer.h.0.attn.c_attn' has no pair of matrices that fit"):
        convert(adapter, tmp_path / "lora.gguf")
    names = {f"base_model.model.transformer.h.0.attn.other.lora_{m}.weight": [3, 3] for m in "AB"}
    base, adapter, _ = folders_of(tmp_path / "other", "gpt2", names)
    with pytest.raises(ValueError, match="'transformer.h.0.attn.other' is no matrix of architecture 'gpt2'"):
        convert(adapter, tmp_path / "lora.gguf")
    with pytest.raises(ValueError, match="^convert: base is given, but .* is no adapter"):
        convert(base, tmp_path / "lora.gguf", base=base)
    with pytest.raises(ValueError, match="^convert: an adapter has no type, imatrix or vocab_only"):
        convert(adapter, tmp_path / "lora.gguf", "F16", base=base)
    names = {f"base_model.model.model.embed_tokens.lora_embedding_{m}": [64, 64] for m in "AB"}
    _, adapter, _ = folders_of(tmp_path / "tied", "qwen3", names)
    with pytest.raises(ValueError, match="the embedding is the output matrix too"):
        convert(adapter, tmp_path / "lora.gguf")
    listed = ["mlp.experts.gate_up_proj"]
    _, adapter, _ = folders_of(tmp_path / "listed", "qwen3moe", target_parameters=listed)
    with pytest.raises(ValueError, match=r"'target_parameters' is .*gate_up_proj.*of which the adapter has 2"):
        convert(adapter, tmp_path / "lora.gguf")
    names = {"base_model.model.model.layers.0.mlp.experts.lora_A.weight": [7, 64],
             "base_model.model.model.layers.0.mlp.experts.lora_B.weight": [64, 7]}  # fmt: skip
    _, adapter, _ = folders_of(tmp_path / "rows", "qwen3moe", names, target_parameters=listed)
    with pytest.raises(ValueError, match="has 7 rows: need a multiple of the number of experts, 4"):
        convert(adapter, tmp_path / "lora.gguf")
    assert not (tmp_path / "lora.gguf").exists()


def test_the_command_goes_both_ways(tmp_path, capsys):
    base, adapter, _ = folders_of(tmp_path, "gpt2")
    assert main(["convert", str(adapter), str(tmp_path / "lora.gguf"), "--base", str(base)]) == 0
    assert main(["convert", str(tmp_path / "lora.gguf"), str(tmp_path / "back"), "--base", str(base)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[0].rpartition("/")[2] for line in out] == [
        "lora.gguf", "adapter_config.json", "adapter_model.safetensors"]  # fmt: skip
    assert main(["convert", str(tmp_path / "lora.gguf"), str(tmp_path / "no")]) == 1
    assert "an adapter needs base" in capsys.readouterr().err


# ---- adapters for tasks, in the folder of their model ----------------------------------------------------------------
TASKS, TASK_RANK, TASK_ALPHA = ["retrieval.query", "separation"], 3, 2.0


def folder_of_tasks(folder, task=None, **change):
    """A folder as the authors of jina-embeddings-v3 save it; with `task`, its adapter is part of the weights."""
    record = hf_models.record("jina-bert-v3")
    weights = {name: hf_models.weight(name, tuple(shape), 0) for name, shape in record["shapes"].items()}
    config = {**record["config"], "architectures": ["XLMRobertaModel"], "position_embedding_type": "rotary",
              "rotary_emb_base": record["config"]["rope_parameters"]["rope_theta"], "lora_adaptations": TASKS,
              "lora_rank": TASK_RANK, "lora_alpha": TASK_ALPHA, "pad_token_id": 1}  # fmt: skip
    del config["rope_parameters"]
    stored = {}
    for name, values in weights.items():
        stem, table = name.removesuffix(".weight"), "embeddings." in name and "LayerNorm" not in name
        if values.ndim < 2:
            stored["roberta." + name] = values
            continue
        ne = (values.shape[0], TASK_RANK), (TASK_RANK, values.shape[1])
        shapes = dict(zip("AB", ne if table else ne[::-1]))
        pairs = {half: np.stack([hf_models.weight(f"{name} {task_} {half}", shape, 3) for task_ in TASKS])
                 for half, shape in shapes.items()}  # fmt: skip
        if task is not None:
            a, b = (pairs[half][TASKS.index(task)] for half in "AB")
            values = values + np.float32(TASK_ALPHA / TASK_RANK) * (a @ b if table else b @ a)
        stem = f"roberta.{stem}.parametrizations.weight."
        stored |= {stem + "original": values, **{f"{stem}0.lora_{half}": pair for half, pair in pairs.items()}}
    hf_models.write_folder(folder, {**config, **change}, {})
    hf_models.write_shard(folder / "model.safetensors", stored)
    return folder


def test_adapters_for_tasks_are_those_of_the_folder(tmp_path):
    folder, texts = folder_of_tasks(tmp_path / "model"), [hf_models.tokens(48), hf_models.tokens(9)]
    convert(folder, tmp_path / "model.gguf")
    found = {}
    with load(tmp_path / "model.gguf", threads=1) as model:
        assert model.config.arch == "jina-bert-v3" and model.config.n_ctx_train == 254
        plain = model.embed(texts[:1], pooling="mean", normalize=False)
        assert hf_models.error(plain[0], hf_models.record("jina-bert-v3")["48"]) < 1e-9
        for task in TASKS:
            assert main(["convert", str(folder), str(tmp_path / f"{task}.gguf"), "--task", task]) == 0
            model.add_adapter(task, tmp_path / f"{task}.gguf")
            found[task] = model.embed(texts, adapter=task)
    for task in TASKS:
        with load(folder_of_tasks(tmp_path / task, task), threads=1) as merged:
            assert hf_models.error(found[task], merged.embed(texts)) < 1e-9
    assert hf_models.error(*found.values()) > 1e-2


def test_wrong_tasks_are_named(tmp_path):
    out, record = tmp_path / "lora.gguf", hf_models.record("jina-bert-v3")
    plain = hf_models.write_folder(tmp_path / "plain", record["config"], record["shapes"])
    for folder, task, message in [
        (folder_of_tasks(tmp_path / "a"), "cats", "task is 'cats': need 'retrieval.query', 'separation'"),
        (plain, "cats", "task is 'cats': need a folder with adapters for tasks"),
        (folder_of_tasks(tmp_path / "b", lora_rank=4), "separation", r".* has pairs .*: need those of lora_rank 4"),
        (folder_of_tasks(tmp_path / "c", lora_adaptations=[*TASKS, "x"]), "x", "tensor .* need one of 3 matrices"),
    ]:
        with pytest.raises(ValueError, match=f"^convert: .*{message}"):
            convert(folder, out, task=task)
    with pytest.raises(ValueError, match="^convert: an adapter has no type"):
        convert(plain, out, "F16", task="separation")
    assert not out.exists()
