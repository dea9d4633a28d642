// Max-unpooling: an output element holds the last of the inputs x0 whose index x1 is its number, else 0.
// u_size (depth, height, width) of the map that the indices count in; u_height and u_count: height and elements of the
// input; u_rows: height of the output. u_kernel, u_stride and u_padding (before) have a number for each axis.
// WINDOWS: the indices are those of a MaxPool, so only windows that reach an element can name it.
float source(ivec4 at) {
  ivec3 size = u_size, place = ivec3(at.z / u_rows, at.z % u_rows, at.w);
  if (any(greaterThanEqual(place, size))) return 0.0;
  float number = float((((at.x * u.o.nchw.y + at.y) * size.x + place.x) * size.y + place.y) * size.z + place.z);
  float found = 0.0;
#if WINDOWS
  ivec3 end = ivec3(u.x[0].nchw.z / u_height, u_height, u.x[0].nchw.w) - 1;
  ivec3 reach = place + u_padding, from = max(reach - u_kernel + u_stride, 0) / u_stride;
  ivec3 to = min(reach / u_stride, end);
  for (int z = from.x; z <= to.x; z++) {
    for (int y = from.y; y <= to.y; y++) {
      for (int x = from.z; x <= to.z; x++) {
        ivec4 p = ivec4(at.xy, z * u_height + y, x);
        if (element(x1, u.x[1], p) == number) found = element(x0, u.x[0], p);
      }
    }
  }
#else
  for (int k = 0; k < u_count; k++) {
    if (flat_element(x1, u.x[1], k) == number) found = flat_element(x0, u.x[0], k);
  }
#endif
  return found;
}
