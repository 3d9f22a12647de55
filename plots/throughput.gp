# SPDX-License-Identifier: MIT
# Left: samples per second with 95 % intervals. Right: speed-up over a single device, with the ideal line.
# Columns: gpus, then for dp and ddp: samples/s, low, high, speed-up; last the single device's samples/s.
picture_type = ARG4; picture = ARG3; width = 900; height = 470
load ARG1

stats ARG2 using 1 every ::1 nooutput
most = STATS_max
set multiplot layout 1,2 title noenhanced title_lines(ARG5) margins 0.09, 0.98, 0.24, 0.77 spacing 0.1
set xtics (1, 2, 4, 8, 16, 32, 64)
set ytics auto
set xrange [0.7:most + 0.3]
set yrange [0:*]
set xlabel "N, devices"
set key bottom center outside horizontal
set pointsize 1.3
set bars 0.7
shift = 0.012 * most   # so that two intervals at one N do not hide each other

set title "samples per second" font ",14"
plot ARG2 every ::1 using 1:10 with lines linecolor rgb grey dashtype 2 linewidth 2 title "single", \
     "" every ::1 using ($1 - shift):2:3:4 with yerrorbars linecolor rgb dp_colour pointtype 7 linewidth 1.5 notitle, \
     "" every ::1 using ($1 + shift):6:7:8 with yerrorbars linecolor rgb ddp_colour pointtype 5 linewidth 1.5 notitle, \
     "" every ::1 using ($1 - shift):2 with linespoints linecolor rgb dp_colour pointtype 7 linewidth 2 title "DP", \
     "" every ::1 using ($1 + shift):6 with linespoints linecolor rgb ddp_colour pointtype 5 linewidth 2 title "DDP"

set title "speed-up over a single device"
plot x with lines linecolor rgb grey dashtype 3 linewidth 2 title "ideal", \
     ARG2 every ::1 using 1:5 with linespoints linecolor rgb dp_colour pointtype 7 linewidth 2 title "DP", \
     "" every ::1 using 1:9 with linespoints linecolor rgb ddp_colour pointtype 5 linewidth 2 title "DDP"
unset multiplot
