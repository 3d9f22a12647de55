# SPDX-License-Identifier: MIT
# Share of the step in which each device computed.
# Columns: device, per cent for a DP device, per cent for a DDP device; DP's devices, a gap, DDP's devices.
picture_type = ARG4; picture = ARG3; width = 900; height = 420
load ARG1

set title noenhanced title_lines(ARG5)
set ylabel "busy, % of the step"
set yrange [0:110]
set ytics 0, 20, 100
set xtics scale 0
set boxwidth 0.6
unset key
stats ARG2 using 2 every ::1 nooutput
devices = STATS_records
set label 1 "DataParallel: GPU" at (devices - 1) / 2.0, graph -0.18 center
set label 2 "DistributedDataParallel: GPU" at devices + 1 + (devices - 1) / 2.0, graph -0.18 center
percent(x) = devices > 16 ? "" : sprintf("%.0f", x)
plot ARG2 every ::1 using 0:2:xticlabels(device_label(strcol(1))) with boxes linecolor rgb dp_colour, \
     "" every ::1 using 0:3 with boxes linecolor rgb ddp_colour, \
     "" every ::1 using 0:($2 + 5):(percent($2)) with labels, \
     "" every ::1 using 0:($3 + 5):(percent($3)) with labels
