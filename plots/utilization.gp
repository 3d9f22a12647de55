# SPDX-License-Identifier: MIT
# Share of the step in which each device computed.
# Columns: label, per cent for a DP device, per cent for a DDP device.
picture_type = ARG4; picture = ARG3; width = 900; height = 400
load ARG1

set title noenhanced ARG5
set ylabel "busy, % of the step"
set yrange [0:100]
set xtics scale 0
set boxwidth 0.6
unset key
plot ARG2 every ::1 using 0:2:xticlabels(two_lines(strcol(1))) with boxes linecolor rgb dp_colour, \
     "" every ::1 using 0:3 with boxes linecolor rgb ddp_colour, \
     "" every ::1 using 0:($2 + 4):(sprintf("%.0f %%", $2)) with labels, \
     "" every ::1 using 0:($3 + 4):(sprintf("%.0f %%", $3)) with labels
