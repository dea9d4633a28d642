// What both stages of the display know.
// i[0]: image, columns, number of maps in this draw, the first one's place in the mosaic
// i[1]: width and height of a drawn map, the gap beside it, reads a pixel along each axis
// i[2]: left and bottom of the picture in the canvas, its width and height
// i[3]: range (0 channel, 1 layer, 2 fixed), its use (0 signed, 1 minimum to maximum, 2 symmetric),
//       colour map's layer (-1: grey)
// i[4]: the value's first row in `ranges` and how wide that is; its column and row in `shared_ranges`
// f[0]: map pixels a canvas pixel in x and y, lowest and highest value of a fixed range
// f[1]: 1 over the value's phases and blocks, in x and y
