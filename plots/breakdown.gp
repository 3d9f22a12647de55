# SPDX-License-Identifier: MIT
# A step of the slowest device, stacked by phase: cold colours compute, warm ones move data, grey ones wait.
# Columns: label, then milliseconds by phase.
picture_type = ARG4; picture = ARG3; width = 900; height = 500
load ARG1

set title noenhanced ARG5
set style data histograms
set style histogram rowstacked
set boxwidth 0.65
set ylabel "ms a step"
set yrange [0:*]
set xtics scale 0
set key noenhanced invert maxrows 11 spacing 1.1
set rmargin 24
set lmargin 8
array colour[11] = [blue, sky, navy, green, yellow, orange, pink, red, wine, grey, light]
plot for [c = 2:12] ARG2 using c:xticlabels(two_lines(strcol(1))) title columnhead linecolor rgb colour[c - 1]
