#!/usr/bin/env python3
"""Writes parl/core/internal/normal_table.h: the layers under the normal curve from which standard_normal() draws.

    python3 scripts/make_normal_table.py > parl/core/internal/normal_table.h

256 layers of equal area (Marsaglia & Tsang 2000, "The ziggurat method for generating random variables", section 2), in
double arithmetic with correctly rounded exp and log. numpy's own table was made with an exp() that rounded one value
up, that of layer 38; with it every entry equals numpy's, and so does every number drawn.
"""
import math
from decimal import Decimal, getcontext

EDGE = 3.6541528853610087963519472518  # where the tail begins
AREA = 0.004928673233974652  # of a layer
ROUNDED_UP = 38

getcontext().prec = 50


def exp(x):
    return float(Decimal(x).exp())


def log(x):
    return float(Decimal(x).ln())


def layers():
    edges, heights = [0.0] * 256, [1.0] * 256
    edges[255] = EDGE
    for i in range(255, 0, -1):
        heights[i] = exp(-0.5 * edges[i] * edges[i])
        if i == ROUNDED_UP:
            heights[i] = math.nextafter(heights[i], 1)
        if i > 1:
            edges[i - 1] = math.sqrt(-2.0 * log(AREA / edges[i] + heights[i]))
    edges[0] = AREA / heights[255]  # the width of the lowest layer, were its tail folded into it
    return edges, heights


def rows(name, values):
    lines = [f"inline constexpr double {name}[256] = {{"]
    for i in range(0, 256, 4):
        lines.append("    " + " ".join(value.hex() + "," for value in values[i : i + 4]))
    return lines + ["};"]


def main():
    edges, heights = layers()
    print("// Written by scripts/make_normal_table.py. kNormalEdge: x of each layer's right edge; kNormalHeight: exp(-x * x / 2).")
    print("// clang-format off")
    print("#pragma once\n\nnamespace parl::internal {\n")
    print("\n".join(rows("kNormalEdge", edges)))
    print()
    print("\n".join(rows("kNormalHeight", heights)))
    print("\n}  // namespace parl::internal")
    print("// clang-format on")


if __name__ == "__main__":
    main()
