# SPDX-License-Identifier: MIT
"""Which samples are trained on and tested: the same for single, dp and ddp.

    test_samples.py DDP_TRAIN_SOFT DP_TRAIN_SOFT
"""
import json
import os

from pictures import make_pictures
from processes import Run, by_hand, check, expect, fault, free_port, run_tests
from trainer import DDP, DP, folder, summary, train, train_aloud

SMALL = ["--width", 32, "--depth", 1, "--lr", 0.1]


# ---- evaluation ------------------------------------------------------------------------------------------------------


def all_ways(*devices):
    """(program, arguments) of every strategy."""
    yield DP, ["--strategy", "single"]
    for n in devices:
        for program in (DP, DDP):
            yield program, ["--gpus", n]


def test_every_sample_once():
    """Trial 5: 10 samples of which 2 are wrong, on 1 to 4 devices and 8: 80.00 % of 10; 21 samples on 2."""
    wrong = [1, 0] + list(range(2, 10))
    for labels, devices, accuracy in ((wrong, (1, 2, 3, 4, 8), "80.00 %"), ([i % 10 for i in range(21)], (1, 2), "100.00 %")):
        with folder() as path:
            make_pictures(path, 40, labels)
            ways = [(program, [*arguments, "--global-batch", 8, "--epochs", 30]) for program, arguments in all_ways(*devices)]
            dealt = ["--sampler", "distributed", "--global-batch", 12, "--epochs", 50]
            ways += [(program, ["--gpus", n, *dealt]) for program in (DP, DDP) for n in devices if n in (2, 3)]
            for program, arguments in ways:
                lines, out = train_aloud(program, "--data", path, *SMALL, *arguments)
                got = lines["summary"][0]
                right = sum(label == i % 10 for i, label in enumerate(labels))
                check((got["test_samples"], got["test_correct"]) == (len(labels), right), f"{program} {arguments}: {got}")
                check(f"test: {len(labels)} samples, {right} right: {accuracy}" in out, out)


def test_accuracies_agree():
    """The digits' 360 samples after one epoch: dp and ddp hold the same weights, so the same samples are right."""
    for ranks in (2, 3, 4):
        common = ["--data", "digits", *SMALL, "--global-batch", 32, "--epochs", 1, "--gpus", ranks]
        mine, other = summary(DDP, *common), summary(DP, *common)
        alone = summary(DP, "--strategy", "single", *common[:-2])
        for got in (mine, other, alone):
            check(got["test_samples"] == 360, f"{got['test_samples']} samples")
        check(mine["test_correct"] == other["test_correct"] or ranks == 3, f"{ranks}: {mine['test_correct']} {other['test_correct']}")
        check(abs(mine["test_correct"] - alone["test_correct"]) <= 1, f"{mine['test_correct']}, alone {alone['test_correct']}")


# ---- the distributed sampler -----------------------------------------------------------------------------------------


def test_distributed_dp_and_ddp_agree():
    """Bit for bit, as with the chunk sampler; and it is another order."""
    for ranks, more in ((2, []), (4, ["--accumulate", 1]), (4, ["--drop-last"])):
        common = ["--data", "digits", *SMALL, "--gpus", ranks, "--global-batch", 32, "--steps", 50, "--checksum"]
        distributed = [*common, "--sampler", "distributed", *more]
        mine, other = train(DDP, *distributed), train(DP, *distributed)
        check(mine["summary"][0]["checksum"] == other["summary"][0]["checksum"], f"{ranks} {more}: checksums differ")
        for ours, theirs in zip(mine["step"], other["step"]):
            check(abs(ours["loss"] - theirs["loss"]) <= 1e-5 * theirs["loss"], f"{ranks} {more}: {ours} and {theirs}")
        check("sampler=distributed" in mine["summary"][0]["variant"], mine["summary"][0]["variant"])
        chunk = train(DP, *common)
        # on 2 ranks the same rows in another order: the weights' last bits differ, the last loss need not
        check(chunk["summary"][0]["checksum"] != other["summary"][0]["checksum"], "the same order as the chunk sampler's")


def test_uneven_data_ends():
    """Trial 4: 101 and 98 samples on 4 ranks, batch 8 each: 3 steps an epoch on every rank, and the rest is told, once; and ranks
    whose last pieces are 2 and 6 samples, or none."""
    chunk, dealt = ["--sampler", "chunk"], ["--sampler", "distributed"]
    for samples, more, words in ((101, dealt, "3 samples are repeated"), (101, [*dealt, "--drop-last"], "1 of 101 samples are left out"),
                                 (101, chunk, "5 of 101 samples are left out"), (98, chunk, "2 of 98 samples are left out"),
                                 (98, dealt, "2 samples are repeated")):
        with folder() as path:
            make_pictures(path, samples, [0])
            for program in (DDP, DP):
                run = Run([program, "--data", path, *SMALL, "--gpus", 4, "--global-batch", 32, "--epochs", 2, "--warmup", 0, *more])
                expect(run, 0, limit=60)
                check("step 6/6" in run.out, run.out)
                check(run.err.count(words) == 1, f"{samples} {more}: {run.err}")
    with folder() as path:
        make_pictures(path, 16, [0])
        for ranks, batch in ((2, 3), (4, 5), (4, 2), (3, 16)):   # pieces 2 1; 2 2 1; 1 1; 6 6 4
            got = [summary(program, "--data", path, *SMALL, "--gpus", ranks, "--global-batch", batch, "--epochs", 3, "--warmup", 0)
                   for program in (DDP, DP)]
            check(all(line["status"] == "ok" and line["steps"] == 3 * (16 // batch) for line in got), f"{got}")


def test_refused_before_any_process():
    """Trials 3 and 6: the launcher itself says what would do."""
    for arguments, words in ((["--gpus", 4, "--global-batch", 6], "4 and 8"), (["--gpus", 8, "--global-batch", 4], "is 8")):
        run = Run([DDP, "--data", "digits", "--sampler", "distributed", *arguments])
        expect(run, 2, limit=10)
        check(words in run.err and "rank" not in run.err, run.err)
    with folder() as path:
        make_pictures(path, 31, [0])
        for program in (DDP, DP):
            for more, words in ((["--sampler", "distributed", "--drop-last"], ("7 of 31 samples", "at least 32 samples")),
                                (["--sampler", "chunk"], ("32", "31"))):
                run = Run([program, "--data", path, "--gpus", 4, "--global-batch", 32, *more])
                expect(run, 2, limit=30)
                check(all(word in run.err for word in words), run.err)
    with folder() as path:   # one each
        make_pictures(path, 3, [0])
        for program in (DDP, DP):
            for batch, more in ((3, []), (8, ["--sampler", "distributed"])):
                got = summary(program, "--data", path, *SMALL, "--gpus", 8, "--global-batch", batch, "--steps", 4, *more)
                check(got["status"] == "ok" and got["global_batch"] == batch, f"{got}")
    for batch, counted in ((6, 6), (2, 2), (1, 1)):   # the chunk sampler runs exactly what was asked for
        got = summary(DDP, "--data", "digits", *SMALL, "--gpus", 4, "--global-batch", batch, "--steps", 5)
        check(got["global_batch"] == counted and got["status"] == "ok", f"{got}")


def test_resume_at_an_epoch():
    """Trial 7: 22 samples on 2 ranks; epochs 3 and 4 of a run, and the same after a resume, give the same weights."""
    for program in (DDP, DP):
        for sampler, batch in (("distributed", 4), ("chunk", 4), ("chunk", 22)):
            with folder() as path:
                make_pictures(path, 22, [0])
                common = ["--data", path, *SMALL, "--gpus", 2, "--global-batch", batch, "--sampler", sampler, "--warmup", 0]
                whole, half, rest = (os.path.join(path, name) for name in ("whole", "half", "rest"))
                expect(Run([program, *common, "--epochs", 4, "--save", whole]), 0, limit=60)
                expect(Run([program, *common, "--epochs", 2, "--save", half]), 0, limit=60)
                expect(Run([program, *common, "--epochs", 4, "--resume", half, "--save", rest]), 0, limit=60)
                with open(whole, "rb") as one, open(rest, "rb") as other:
                    check(one.read() == other.read(), f"{sampler} {batch}: a resumed run sees other samples")


# ---- loaders ---------------------------------------------------------------------------------------------------------


def test_loaders_change_no_bit():
    """The same checkpoint with 0, 1 and 3 threads a device, over the end of an epoch."""
    for program, arguments in ((DP, ["--strategy", "single"]), (DP, ["--gpus", 2]), (DP, ["--gpus", 4, "--accumulate", 2]),
                               (DDP, ["--gpus", 2]), (DDP, ["--gpus", 4, "--accumulate", 2])):
        kept = set()
        for loaders in (0, 1, 3):
            with folder() as path:
                file = os.path.join(path, "checkpoint")
                expect(Run([program, "--data", "digits", *SMALL, *arguments, "--global-batch", 64, "--steps", 60, "--checksum",
                            "--loaders", loaders, "--save", file]), 0, limit=60)
                with open(file, "rb") as saved:
                    kept.add(saved.read())
        check(len(kept) == 1, f"{program} {arguments}: the loaders change bits")


def test_loader_failure():
    """The run ends at once with the loader's own words."""
    for program, place in ((DP, 0), (DDP, 1)):
        run = Run([program, "--data", "digits", *SMALL, "--gpus", 2, "--steps", 100000, "--timeout", 3],
                  fault(f"loader:{place}:step7"))
        expect(run, 1, limit=30)
        check("loader: planted fault at step 7" in run.err, run.err)


def test_loader_threads():
    """As many for N devices in one process as in N: --loaders each."""
    for program, gpus, loaders, expected in ((DP, 2, 2, [4]), (DDP, 2, 2, [2, 2]), (DP, 1, 1, [1]), (DDP, 3, 0, [0, 0, 0])):
        run = Run([program, "--data", "digits", *SMALL, "--gpus", gpus, "--steps", 10000000, "--loaders", loaders, "--timeout", 3])
        pids = lambda: run.ranks() if program == DDP else [run.pid]

        def there():
            return len(pids()) == len(expected) and [count_threads(pid, "loader") for pid in pids()] == expected and \
                all(count_threads(pid, "") > 2 for pid in pids())
        run.wait(there, f"{program}: {expected} loaders")
        run.process.terminate()
        run.finish(30)
        check(not run.left(), "processes are left")


def count_threads(pid, name):
    found = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as comm:
                found += not name or comm.read().strip() == name
    except OSError:
        pass
    return found


# ---- bad files and texts ---------------------------------------------------------------------------------------------


def test_bad_files_end_the_run():
    """Code 4 from every rank, with found and expected, before anything is trained."""
    with folder() as path:
        make_pictures(path, 40, [0])
        images = os.path.join(path, "train-images-idx3-ubyte")
        empty, cifar = os.path.join(path, "empty.txt"), os.path.join(path, "cifar")
        os.mkdir(cifar)
        for name in (empty, os.path.join(cifar, "data_batch_1.bin")):
            with open(name, "wb") as file:
                file.write(b"x" * 100)
        with open(images, "r+b") as file:
            file.truncate(100)
        for data, model in ((path, "mlp"), (empty, "gpt-nano"), (cifar, "mlp")):
            for program in (DP, DDP):
                run = Run([program, "--gpus", 2, "--model", model, "--data", data, "--steps", 1])
                expect(run, 4, limit=10)
                check("found, expected" in run.err and "loss" not in run.out, run.err)


def test_text():
    """A text trains a model of tokens, alike in both trainers; a model of floats is told why not."""
    with folder() as path:
        text = os.path.join(path, "text")
        with open(text, "w", encoding="utf-8") as file:
            file.write("the quick brown fox jumps over the lazy dog; " * 100)
        common = ["--model", "gpt-nano", "--data", text, "--gpus", 2, "--global-batch", 4, "--steps", 3]
        mine, other = train(DDP, *common, "--checksum"), train(DP, *common, "--checksum")
        check(mine["summary"][0]["checksum"] == other["summary"][0]["checksum"], "checksums differ")
        check(mine["summary"][0]["test_samples"] == other["summary"][0]["test_samples"] == 4500 // 129 // 10, "the last tenth")
        check(mine["step"][-1]["loss"] < mine["step"][0]["loss"], f"{mine['step']}")
        run = Run([DP, "--data", text, "--steps", 1])
        expect(run, 2, limit=10)
        check("model of tokens" in run.err, run.err)


def lstm_on_a_text(path):
    text = os.path.join(path, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("the quick brown fox jumps over the lazy dog; " * 100)
    return ["--model", "lstm", "--data", text, "--global-batch", 8, "--lr", 1, "--momentum", 0, "--warmup", 0]


def test_lstm():
    """It learns a text in every precision, and its header says what it is."""
    with folder() as path:
        common = lstm_on_a_text(path)
        for precision in ("fp32", "bf16", "fp16"):
            lines, out = train_aloud(DP, *common, "--strategy", "single", "--precision", precision, "--steps", 40)
            first, last = lines["step"][0]["loss"], lines["step"][-1]["loss"]
            check(5 < first < 6.5 and last < 2.9, f"{precision}: loss {first} -> {last}")
            check("lstm, 657664 parameters" in out and "layers=1 embedding=256 width=256 block=64 vocabulary=256" in out, out)


def test_resume_lstm():
    """A run resumed has the bits of one that never stopped."""
    with folder() as path:
        common, files = lstm_on_a_text(path), [os.path.join(path, name) for name in ("whole", "half", "rest")]
        for program in (DP, DDP):
            start = [program, *common, "--gpus", 2, "--accumulate", 2]
            train(*start, "--steps", 9, "--save", files[0])
            train(*start, "--steps", 4, "--save", files[1])
            train(*start, "--steps", 5, "--resume", files[1], "--save", files[2])
            with open(files[0], "rb") as whole, open(files[2], "rb") as rest:
                check(whole.read() == rest.read(), f"{program}: the checkpoints differ")


# ---- surroundings ----------------------------------------------------------------------------------------------------


def test_thread_counts_from_outside():
    """Trial 35: OMP_NUM_THREADS changes neither weights nor cores."""
    for program in (DP, DDP):
        seen = set()
        for value in (None, "1", "8", "abc"):
            lines = train(program, "--data", "digits", "--width", 256, "--gpus", 2, "--global-batch", 32, "--steps", 3,
                          "--checksum", env={} if value is None else {"OMP_NUM_THREADS": value})
            got = lines["summary"][0]
            seen.add((got["checksum"], got["cores_per_device"], tuple(d["cores"] for d in lines["device"])))
        check(len(seen) == 1, f"{program}: {seen}")


def test_bound_ranks():
    """Trial 35: each rank bound to a core of its own, as mpirun does it, and both to the same: the masks are told, sharing is warned of,
    and both train the same model."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return   # nothing to bind to
    checksums = set()
    for masks, shared in ((usable[:2], "no"), (usable[:1] * 2, "yes")):
        with folder() as path:
            file, port = os.path.join(path, "run.json"), free_port()
            command = [DDP, "--data", "digits", *SMALL, "--cores-per-device", 1, "--steps", 3, "--checksum", "--json", file]
            runs = [by_hand(["taskset", "-c", mask, *command], [rank], 2, port)[rank] for rank, mask in enumerate(masks)]
            for run in runs:
                expect(run, 0)
            with open(file, encoding="utf-8") as text:
                lines = [json.loads(line) for line in text]
        got = lines[-1]
        checksums.add(got["checksum"])
        check([line["cores"] for line in lines if line["type"] == "device"] == [str(mask) for mask in masks], f"{lines}")
        check((got["oversubscribed"], got["cores_per_device"]) == (shared, 1), f"{masks}: {got}")
        check(("oversubscribed" in runs[0].out) == (shared == "yes"), runs[0].out)
    check(len(checksums) == 1, f"{checksums}")


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
