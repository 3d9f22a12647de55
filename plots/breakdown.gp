# SPDX-License-Identifier: MIT
# A step of the slowest device, stacked by phase: cold colours compute, warm ones move data, grey ones wait.
# Columns: label, then milliseconds by phase.
picture_type = ARG4; picture = ARG3; width = 900; height = 580
load ARG1

set title noenhanced title_lines(ARG5)
set style data histograms
set style histogram rowstacked
set boxwidth 0.65
set ylabel "ms a step, median"
set yrange [0:*]
set xtics scale 0
# Below the bars, three to a column: beside them eleven names would not fit in one.
set key noenhanced outside bottom center horizontal maxrows 3 width 2
set bmargin 9
array colour[11] = [blue, sky, navy, green, yellow, orange, pink, red, wine, grey, light]
plot for [c = 2:12] ARG2 using c:xticlabels(two_lines(strcol(1))) title columnhead linecolor rgb colour[c - 1]
