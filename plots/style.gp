# SPDX-License-Identifier: MIT
# What all figures share. Called first by each script:
#   gnuplot -c SCRIPT STYLE DATA PICTURE TYPE TITLE        TYPE: svg or png
# Colours: Okabe and Ito's palette, told apart by colour-blind eyes and in grey print.

set encoding utf8
set datafile separator "\t"
set datafile missing "?"

if (picture_type eq "svg") {
    set terminal svg size width,height font "DejaVu Sans,Arial,Helvetica,sans-serif,15" linewidth 1.4 enhanced background rgb "white"
} else {
    set terminal pngcairo size width,height font "DejaVu Sans,13" linewidth 1.4 enhanced
}
set output picture

set border 3 linecolor rgb "#555555"
set tics nomirror
set grid ytics back linecolor rgb "#cccccc" linewidth 0.7 dashtype 1
set style fill solid 1.0 noborder
set key outside right top vertical Left reverse samplen 1.2 spacing 1.25
set bmargin 4

black = "#222222"; grey = "#999999"; light = "#d9d9d9"
blue = "#0072b2"; sky = "#56b4e9"; green = "#009e73"; navy = "#332288"
orange = "#e69f00"; red = "#d55e00"; pink = "#cc79a7"; yellow = "#f0e442"; wine = "#882255"

# "What: of what" as a head and a line below it: in one line it would not fit.
title_lines(text) = (colon = strstrt(text, ": ")) > 0 ? text[1:colon - 1]."\n".text[colon + 2:*] : text

two_lines(label) = words(label) > 1 ? word(label, 1)."\n".label[strlen(word(label, 1)) + 2:*] : label

# Of many devices only some are named, about eight.
device_label(number) = devices > 16 && strlen(number) && int(real(number)) % int(ceil(devices / 8.0)) != 0 ? "" : number

three_digits(x) = sprintf(x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f", x)

dp_colour = red
ddp_colour = blue
