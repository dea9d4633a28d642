// Max-unpooling: an output element holds the last of the inputs x0 whose index x1 is its number, else 0.
// i[0] size of the map that the indices count in (depth, height, width), and of the input: height; i[1] kernel
// (depth, rows, columns) and elements of the input, i[2] strides, height of the output, i[3] padding before.
// WINDOWS: the indices are those of a MaxPool, so only windows that reach an element can name it.
float source(ivec4 at) {
  ivec3 size = u.i[0].xyz, place = ivec3(at.z / u.i[2].w, at.z % u.i[2].w, at.w);
  if (any(greaterThanEqual(place, size))) return 0.0;
  float number = float((((at.x * u.o.nchw.y + at.y) * size.x + place.x) * size.y + place.y) * size.z + place.z);
  float found = 0.0;
#if WINDOWS
  ivec3 end = ivec3(u.x[0].nchw.z / u.i[0].w, u.i[0].w, u.x[0].nchw.w) - 1;
  ivec3 reach = place + u.i[3].xyz, from = max(reach - u.i[1].xyz + u.i[2].xyz, 0) / u.i[2].xyz;
  ivec3 to = min(reach / u.i[2].xyz, end);
  for (int z = from.x; z <= to.x; z++) {
    for (int y = from.y; y <= to.y; y++) {
      for (int x = from.z; x <= to.z; x++) {
        ivec4 p = ivec4(at.xy, z * u.i[0].w + y, x);
        if (element(x1, u.x[1], p) == number) found = element(x0, u.x[0], p);
      }
    }
  }
#else
  for (int k = 0; k < u.i[1].w; k++) {
    if (flat_element(x1, u.x[1], k) == number) found = flat_element(x0, u.x[0], k);
  }
#endif
  return found;
}
