# SPDX-License-Identifier: MIT
# A step of the slowest device, stacked by phase: cold colours compute, warm ones move data, grey ones wait.
# Columns: label, then milliseconds by phase.
picture_type = ARG4; picture = ARG3; width = 900; height = 580
load ARG1

set title noenhanced title_lines(ARG5)
set style data histograms
set style histogram rowstacked
set boxwidth 0.65
set ylabel "ms a step"
set yrange [0:*]
set xtics scale 0
# Below the bars, three to a column: beside them eleven names would not fit in one.
set key noenhanced outside bottom center horizontal maxrows 3 width 2
set bmargin 9
array colour[11] = [blue, sky, navy, green, yellow, orange, pink, red, wine, grey, light]
array name[11] = ["forward", "loss", "backward", "update", "scatter", "replicate", "gather", "reduce", "all-reduce (exposed)", "host", "wait"]
# What is too thin to be seen in any bar has no place in the key.
stats ARG2 using ($2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 + $10 + $11 + $12) every ::1 nooutput
tallest = STATS_max
array seen[11]
do for [c = 2:12] { stats ARG2 using c every ::1 nooutput; seen[c - 1] = STATS_max > tallest / 500 }
plot for [c = 2:12] ARG2 every ::1 using c:xticlabels(two_lines(strcol(1))) linecolor rgb colour[c - 1] title (seen[c - 1] ? name[c - 1] : "")
