# SPDX-License-Identifier: MIT
# Left: bytes of one step between devices, stacked by phase. Right: what the busiest device sends or receives, the larger of the two.
# Columns: label, then MiB by phase (scatter replicate gather loss reduce allreduce other), busiest device.
picture_type = ARG4; picture = ARG3; width = 900; height = 500
load ARG1

array colour[7] = [yellow, orange, pink, sky, red, wine, grey]
array name[7] = ["scatter", "replicate", "gather", "loss", "reduce", "all-reduce", "other"]
stats ARG2 using 9 every ::1 nooutput
many = STATS_records > 8
tick(label) = many ? label : two_lines(label)
set offsets 0, 0, graph (many ? 0.15 : 0.06), 0
if (many) { set xtics rotate by 90 right }
set multiplot title noenhanced title_lines(ARG5)
set style data histograms
set xtics scale 0 font ",12"
set yrange [0:*]
set boxwidth 0.7
set bmargin (many ? 8.5 : 6)
set tmargin 3
set key outside bottom center horizontal maxrows 2 noenhanced

set size 0.57, 0.9
set origin 0, 0
set title "all links together" font ",14"
set ylabel "MiB a step"
set style histogram rowstacked
stats ARG2 using ($2 + $3 + $4 + $5 + $6 + $7 + $8) every ::1 nooutput
tallest = STATS_max
array total[7]
do for [c = 2:8] { stats ARG2 using c every ::1 nooutput; total[c - 1] = STATS_max }
plot for [c = 2:8] ARG2 every ::1 using c:xticlabels(tick(strcol(1))) linecolor rgb colour[c - 1] title (total[c - 1] > tallest / 500 ? name[c - 1] : "")

set size 0.43, 0.9
set origin 0.57, 0
set title "busiest device, one way"
set ylabel "MiB a step"
unset key
set style histogram clustered gap 0.6
set boxwidth 0.7 absolute
place = many ? "rotate by 90 left offset 0, 0.3" : "offset 0, 0.7"
plot ARG2 every ::1 using 0:9:xticlabels(tick(strcol(1))) with boxes linecolor rgb navy, \
     "" every ::1 using 0:9:(three_digits($9)) with labels @place font ",11"
unset multiplot
