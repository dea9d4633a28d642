// Columns of windows added up where they came from. Axes are (depth, rows, columns), depth 1 for maps.
// u_kernel: size of a window, of u_taps elements; u_stride, u_dilation, u_padding (before); u_counts: how many
// windows along each axis, and u_windows altogether; u_rows of one slice of the output.
float source(ivec4 at) {
  int slice = at.z / u_rows;
  ivec3 p = ivec3(slice, at.z - slice * u_rows, at.w) + u_padding;
  int first = (at.x * u.o.nchw.y + at.y) * u_taps;
  float sum = 0.0;
  for (int k = 0; k < u_taps; k++) {
    int row = k / u_kernel.z, plane = row / u_kernel.y;
    ivec3 q = p - ivec3(plane, row - plane * u_kernel.y, k - row * u_kernel.z) * u_dilation;
    if (any(lessThan(q, ivec3(0)))) continue;
    ivec3 window = q / u_stride;
    if (window * u_stride != q || any(greaterThanEqual(window, u_counts))) continue;
    sum += flat_element(x0, u.x[0], (first + k) * u_windows + (window.x * u_counts.y + window.y) * u_counts.z + window.z);
  }
  return sum;
}
