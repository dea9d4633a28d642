// Columns of windows added up where they came from. Axes are (depth, rows, columns), depth 1 for maps.
// i[0] size of a window and how many elements it has; i[1] strides, i[2] dilations, i[3] padding before;
// i[4] how many windows along each axis, and altogether; i[5].x rows of one slice of the output.
float source(ivec4 at) {
  int slice = at.z / u.i[5].x;
  ivec3 p = ivec3(slice, at.z - slice * u.i[5].x, at.w) + u.i[3].xyz;
  int first = (at.x * u.o.nchw.y + at.y) * u.i[0].w;
  float sum = 0.0;
  for (int k = 0; k < u.i[0].w; k++) {
    int row = k / u.i[0].z, plane = row / u.i[0].y;
    ivec3 q = p - ivec3(plane, row - plane * u.i[0].y, k - row * u.i[0].z) * u.i[2].xyz;
    if (any(lessThan(q, ivec3(0)))) continue;
    ivec3 window = q / u.i[1].xyz;
    if (window * u.i[1].xyz != q || any(greaterThanEqual(window, u.i[4].xyz))) continue;
    sum += flat_element(x0, u.x[0], (first + k) * u.i[4].w + (window.x * u.i[4].y + window.y) * u.i[4].z + window.z);
  }
  return sum;
}
