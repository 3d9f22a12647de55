# SPDX-License-Identifier: MIT
# One step on each device: DP's devices above, DDP's below, on one scale of time. DDP's collectives have a thin line of
# their own under the device that they belong to.
# Columns: start, end (ms), strategy (0 dp, 1 ddp), device, lane (0 compute, 1 communication), phase from 1.
picture_type = ARG4; picture = ARG3; width = 900; height = 620
load ARG1

stats ARG2 using 4 every ::1 nooutput
devices = int(STATS_max) + 1
stats ARG2 using 2 every ::1 nooutput
longest = STATS_max
array last[2] = [0, 0]
do for [s = 0:1] {
    stats ARG2 using ($3 == s ? $2 : 0) every ::1 nooutput
    last[s + 1] = STATS_max
}
array colour[12] = [blue, sky, navy, green, yellow, orange, pink, red, wine, grey, light, grey]
array name[12] = ["forward", "loss", "backward", "update", "scatter", "replicate", "gather", "reduce", "all-reduce", "host", "wait", "copy from bucket"]
array used[12]
do for [p = 1:12] {
    stats ARG2 using ($6 == p ? 1 : 0) every ::1 nooutput
    used[p] = STATS_max
}

set title noenhanced title_lines(ARG5)
set xrange [0:longest * 1.1]
set yrange [-(2 * devices + 1.2):0.8]
unset grid
set grid xtics back linecolor rgb "#cccccc" linewidth 0.7 dashtype 1
set xlabel "ms since the step's begin, modelled"
set ytics scale 0 ()
do for [d = 0:devices - 1] {
    set ytics add (sprintf("DP %d", d) -d)
    set ytics add (sprintf("DDP %d", d) -(devices + 1 + d))
}
do for [s = 0:1] {
    top = s == 0 ? 0.6 : -(devices + 1) + 0.6
    if (last[s + 1] > 0) {
        set arrow from last[s + 1], top to last[s + 1], top - devices - 0.2 nohead linecolor rgb black dashtype 2 linewidth 1.2
        set label three_digits(last[s + 1])." ms" at last[s + 1], top - devices / 2.0 offset 0.6, 0 left font ",12"
    }
}
set key outside bottom center horizontal maxrows 2 noenhanced
set bmargin 9.5
row(s, d) = -(d + s * (devices + 1))
low(s, d, lane) = row(s, d) + (s == 0 ? -0.4 : lane == 1 ? -0.42 : -0.1)
high(s, d, lane) = row(s, d) + (s == 0 ? 0.4 : lane == 1 ? -0.16 : 0.4)
# Neighbouring buckets stay apart to the eye.
gap(from, to, lane) = lane == 1 ? (to - from > 0.006 * longest ? 0.002 * longest : (to - from) / 3) : 0
plot for [p = 1:12] ARG2 every ::1 using ($6 == p ? ($1 + $2) / 2 : 1/0):(row($3, $4)):1:($2 - gap($1, $2, $5)):(low($3, $4, $5)):(high($3, $4, $5)) \
         with boxxyerror fillstyle solid 1.0 noborder linecolor rgb colour[p] notitle, \
     for [p = 1:12] NaN with boxes fillstyle solid 1.0 noborder linecolor rgb colour[p] title (used[p] > 0 ? name[p] : "")
