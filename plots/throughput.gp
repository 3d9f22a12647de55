# SPDX-License-Identifier: MIT
# Left: samples per second. Right: speed-up over a single device, with the ideal line. Both with 95 % intervals.
# Columns: gpus, then for dp and ddp: samples/s, low, high, speed-up, low, high; last the single device's samples/s.
picture_type = ARG4; picture = ARG3; width = 900; height = 470
load ARG1

stats ARG2 using 1 every ::1 nooutput
most = STATS_max
set multiplot layout 1,2 title noenhanced title_lines(ARG5) margins 0.1, 0.98, 0.24, 0.77 spacing 0.1
set xtics (1, 2, 4, 8, 16, 32, 64)
set ytics auto
set yrange [0:*]
set xlabel "N, devices"
set key bottom center outside horizontal
set pointsize 1.3
set bars 0.7
# Two intervals at one N stand beside each other.
left(n) = n - 0.012 * most
right(n) = n + 0.012 * most
set xrange [left(1) - 0.3:right(most) + 0.3]
if (most > 16) {
    set logscale x 2
    left(n) = n / 1.04
    right(n) = n * 1.04
    set xrange [0.9:most * 1.1]
}

set title "samples per second" font ",14"
plot ARG2 every ::1 using 1:14 with lines linecolor rgb grey dashtype 2 linewidth 2 title "single", \
     "" every ::1 using (left($1)):2:3:4 with yerrorbars linecolor rgb dp_colour pointtype 7 linewidth 1.5 notitle, \
     "" every ::1 using (right($1)):8:9:10 with yerrorbars linecolor rgb ddp_colour pointtype 5 linewidth 1.5 notitle, \
     "" every ::1 using (left($1)):2 with linespoints linecolor rgb dp_colour pointtype 7 linewidth 2 title "DP", \
     "" every ::1 using (right($1)):8 with linespoints linecolor rgb ddp_colour pointtype 5 linewidth 2 title "DDP"

set title "speed-up over a single device"
plot x with lines linecolor rgb grey dashtype 3 linewidth 2 title "ideal", \
     ARG2 every ::1 using (left($1)):5:6:7 with yerrorbars linecolor rgb dp_colour pointtype 7 linewidth 1.5 notitle, \
     "" every ::1 using (right($1)):11:12:13 with yerrorbars linecolor rgb ddp_colour pointtype 5 linewidth 1.5 notitle, \
     "" every ::1 using (left($1)):5 with linespoints linecolor rgb dp_colour pointtype 7 linewidth 2 title "DP", \
     "" every ::1 using (right($1)):11 with linespoints linecolor rgb ddp_colour pointtype 5 linewidth 2 title "DDP"
unset multiplot
