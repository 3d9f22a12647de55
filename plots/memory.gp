# SPDX-License-Identifier: MIT
# Peak memory by category, a stacked bar a device; DP's devices, a gap, DDP's devices.
# Columns: strategy, device, then a column a category in MiB.
picture_type = ARG4; picture = ARG3; width = 900; height = 480
load ARG1

set title noenhanced title_lines(ARG5)
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
stats ARG2 using 3 every ::1 nooutput
devices = (STATS_records - 1) / 2
set label 1 "DataParallel: GPU" at (devices - 1) / 2.0, graph -0.155 center
set label 2 "DistributedDataParallel: GPU" at devices + 1 + (devices - 1) / 2.0, graph -0.155 center
plot for [c = 3:9] ARG2 using c:xticlabels(device_label(strcol(2))) title columnhead linecolor rgb colour[c - 2]
