# SPDX-License-Identifier: MIT
# Peak memory by category, a stacked bar a device; DP's devices, a gap, DDP's devices.
# Columns: strategy, device, then a column a category in MiB.
picture_type = ARG4; picture = ARG3; width = 900; height = 460
load ARG1

set title noenhanced ARG5
set style data histograms
set style histogram rowstacked
set boxwidth 0.8
set ylabel "MiB"
set yrange [0:*]
set xtics scale 0
set key noenhanced invert
set rmargin 18
set lmargin 8
array colour[7] = [blue, sky, green, orange, red, pink, grey]
label(name, device) = (strlen(name) > 0) ? sprintf("%s\nGPU %s", name, device) : ""
plot for [c = 3:9] ARG2 using c:xticlabels(label(strcol(1), strcol(2))) title columnhead linecolor rgb colour[c - 2]
