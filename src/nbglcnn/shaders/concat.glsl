// Up to COUNT inputs one after another along AXIS of the frame (0 n, 1 c, 2 h, 3 w).
// i[0]: where each input starts. ALIGNED: along channels all but the last fill whole texels.

int which(int place) {
  int s = 0;
  if (place >= u.i[0].y) s = 1;
#if COUNT > 2
  if (place >= u.i[0].z) s = 2;
#endif
#if COUNT > 3
  if (place >= u.i[0].w) s = 3;
#endif
  return s;
}

int start(int s) {
  return s < 2 ? (s == 0 ? u.i[0].x : u.i[0].y) : (s == 2 ? u.i[0].z : u.i[0].w);
}

vec4 read(int s, ivec4 at) {
  if (s == 0) return texel(x0, u.x[0], at);
#if COUNT > 2
  if (s == 2) return texel(x2, u.x[2], at);
#endif
#if COUNT > 3
  if (s == 3) return texel(x3, u.x[3], at);
#endif
  return texel(x1, u.x[1], at);
}

#if AXIS == 1 && !ALIGNED
float channel(ivec4 at, int c) {
  int s = which(c);
  c -= start(s);
  return lane(read(s, ivec4(at.x, c >> 2, at.zw)), c & 3);
}
#endif

vec4 pixel(ivec4 at) {
  // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
  at = min(at, ivec4(u.o.frame.x - 1, at.y, u.o.frame.zw - 1));
#if AXIS == 1 && !ALIGNED
  int c = at.y * 4, last = u.o.frame.y - 1;
  return vec4(
    channel(at, c), channel(at, min(c + 1, last)), channel(at, min(c + 2, last)), channel(at, min(c + 3, last)));
#else
#if AXIS == 0
  int s = which(at.x);
  at.x -= start(s);
#elif AXIS == 1
  int s = which(at.y * 4);
  at.y -= start(s) >> 2;
#elif AXIS == 2
  int s = which(at.z);
  at.z -= start(s);
#else
  int s = which(at.w);
  at.w -= start(s);
#endif
  return read(s, at);
#endif
}
