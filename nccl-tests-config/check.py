#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Is what nccl-tests (or netbench) wrote right? Reads its text or its JSON (-J).

Exit code 0: all data right, and no bus bandwidth below a floor. 1: not so, or not known: a file that ends too early, a
run without verification (-c 0), a floor whose size was not run. 2: bad usage.
"""
import argparse
import json
import os
import re
import sys

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Unknown(Exception):
    """What the file does not say, or not in a way that is understood."""


class Run:
    """Of one file: test, hosts and rows are what was run, None where the file does not say."""

    def __init__(self):
        self.test = None
        self.hosts = None
        self.rows = []  # (size in bytes, "out of place" or "in place", bus bandwidth in GB/s, wrong elements)
        self.total_wrong = None


def number(text, what):
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise Unknown(f"{what} is {text!r}") from None
    if value != value or value < 0:
        raise Unknown(f"{what} is {text!r}")
    return value


# ---- text: columns are named by the header, times two where there are both places


def columns(header):
    """Of a header line, where "size" is, and (busbw, #wrong) of each place."""
    names = header.lstrip("#").split()
    busbw = [i for i, n in enumerate(names) if n == "busbw"]
    wrong = [i for i, n in enumerate(names) if n == "#wrong"]
    if not busbw or len(busbw) != len(wrong) or len(busbw) > 2 or names[0] != "size":
        raise Unknown(f"columns are {' '.join(names)}")
    return list(zip(busbw, wrong))


def read_text(text):
    run, places, hosts = Run(), None, set()
    for line in text.splitlines():
        if found := re.match(r"#\s+Rank\s+\d+ .* on\s+(\S+) device", line):
            hosts.add(found[1])
        elif found := re.match(r"# Collective test starting: (\S+)", line):
            run.test = found[1]
        elif re.match(r"#\s+size\s+count\s", line):
            places = columns(line)
        elif found := re.match(r"# Out of bounds values\s*: (\d+) (OK|FAILED)", line):
            run.total_wrong = int(found[1]) or (found[2] != "OK")
        elif places and re.match(r"\s*\d+\s+\d+\s+\w+", line):
            words = line.split()
            for (bw, wrong), place in zip(places, ("out of place", "in place")):
                if len(words) <= wrong:
                    raise Unknown(f"a row is cut off: {line.strip()}")
                what = f"size {words[0]}, {place}: "
                run.rows.append((int(words[0]), place, number(words[bw], what + "busbw"), number(words[wrong], what + "#wrong")))
    run.hosts = len(hosts) or None
    if run.total_wrong is None:
        raise Unknown("there is no summary (Out of bounds values): the run did not end")
    return run


# ---- JSON of nccl-tests -J


def read_json(text):
    run = Run()
    try:
        doc = json.loads(text)
        run.test = os.path.basename(doc["args"][0])
        run.hosts = len({d["hostname"] for d in doc["config"]["devices"]}) or None
        for row in doc["results"]:
            for key, place in (("out_of_place", "out of place"), ("in_place", "in place")):
                if (r := row.get(key)) is None:
                    continue
                what = f"size {row['size']}, {place}: "
                run.rows.append((int(row["size"]), place, number(r["bus_bw"], what + "bus_bw"), number(r["nwrong"], what + "nwrong")))
        run.total_wrong = int(doc["out_of_bounds"]["count"]) or doc["out_of_bounds"]["okay"] != "true"
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as e:
        raise Unknown(f"not the JSON of nccl-tests, or not all of it: {type(e).__name__} {e}") from None
    return run


def read(text):
    run = read_json(text) if text.lstrip().startswith("{") else read_text(text)
    if not run.rows:
        raise Unknown("there is no row of results")
    return run


# ---- judgement


def wrong_data(run):
    bad = [f"size {size}, {place}: {wrong:g} wrong elements" for size, place, _, wrong in run.rows if wrong]
    if run.total_wrong and not bad:
        bad = [f"{int(run.total_wrong)} values out of bounds"]
    return bad


def below(run, floors):
    """floors: size in bytes -> GB/s."""
    bad = []
    for size, floor in sorted(floors.items()):
        rows = [r for r in run.rows if r[0] == size]
        if not rows:
            bad.append(f"size {size}: not run, so it is not known whether it reaches {floor:g} GB/s")
        bad += [f"size {size}, {place}: {bw:g} GB/s, must be {floor:g} at least" for _, place, bw, _ in rows if bw < floor]
    return bad


def expected_floors(run, path):
    """The floors of expected/TYPE.json for the test and the hosts of this run; none at all is an error."""
    try:
        with open(path, encoding="utf-8") as f:
            all_floors = json.load(f)["floors"]
        floors = {int(f["size"]): float(f["busbw"]) for f in all_floors if (f["test"], f["hosts"]) == (run.test, run.hosts)}
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Unknown(f"{path}: {type(e).__name__} {e}") from None
    if not floors:
        raise Unknown(f"{path} has no floor for {run.test} on {run.hosts or 'an unknown number of'} hosts: nobody has measured it")
    return floors


def judge(path, args):
    """What is wrong with it, as a list."""
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8", errors="replace") as f:
            run = read(f.read())
        bad = wrong_data(run) + below(run, dict(args.floor))
        if args.type:
            bad += below(run, expected_floors(run, os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected", args.type + ".json")))
    except OSError as e:
        return [e.strerror], None
    except Unknown as e:
        return [f"unknown: {e}"], None
    return bad, run


def floor(text):
    found = re.fullmatch(r"(\d+)([KMG]?)=(\d+(?:\.\d+)?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: must be SIZE=GBPS, as 1G=180.5")
    return int(found[1]) * UNITS[found[2]], float(found[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="+", help="output of nccl-tests; -: standard input")
    parser.add_argument("--floor", type=floor, action="append", default=[], metavar="SIZE=GBPS",
                        help="bus bandwidth that SIZE must reach, both out of place and in place")
    parser.add_argument("--type", help="instance type: the floors of expected/TYPE.json, which must have some")
    args = parser.parse_args()
    failed = False
    for path in args.file:
        bad, run = judge(path, args)
        for text in bad:
            print(f"{path}: {text}")
        failed = failed or bool(bad)
        if not bad:
            print(f"{path}: right: {run.test or 'a test'}, {len(run.rows)} results, best {max(r[2] for r in run.rows):g} GB/s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
