// Up to COUNT inputs one after another along AXIS of the nchw (0 n, 1 c, 2 h, 3 w).
// u_starts: where each input starts. ALIGNED: along channels all but the last fill whole texels. BLOCKS: and the output
// is in blocks of 2×2. activate() is what was fused behind it.

int which(int place) {
  int s = 0;
  if (place >= u_starts.y) s = 1;
#if COUNT > 2
  if (place >= u_starts.z) s = 2;
#endif
#if COUNT > 3
  if (place >= u_starts.w) s = 3;
#endif
  return s;
}

int start(int s) {
  return s < 2 ? (s == 0 ? u_starts.x : u_starts.y) : (s == 2 ? u_starts.z : u_starts.w);
}

#if BLOCKS
// Channel groups in blocks of 2×2: the four pixels share two rows and two columns of the input.
void copy(sampler2DArray s, Layout l, ivec4 at) {
  vec3 unit = vec3(UNIT(s), 1.0);
  vec3 first = corner(l, at.x, at.y);
  ivec2 last = l.nchw.zw - 1, next = min(at.zw + 1, last);
  vec2 top = place(at.z, l.phase.x, l.phase.w, l.block.y, l.block.z);
  vec2 bottom = place(next.x, l.phase.x, l.phase.w, l.block.y, l.block.z);
  vec2 left = place(at.w, l.phase.y, l.phase.z, l.block.z, 1);
  vec2 right = place(next.y, l.phase.y, l.phase.z, l.block.z, 1);
  o0 = SAMPLE(s, l, (first + vec3(left.x, top.x, left.y + top.y)) * unit);
  o1 = SAMPLE(s, l, (first + vec3(right.x, top.x, right.y + top.y)) * unit);
  o2 = SAMPLE(s, l, (first + vec3(left.x, bottom.x, left.y + bottom.y)) * unit);
  o3 = SAMPLE(s, l, (first + vec3(right.x, bottom.x, right.y + bottom.y)) * unit);
}

void main() {
  ivec4 at = origin();
  o0 = o1 = o2 = o3 = vec4(0.0);
  if (at.x < 0) return;
  int s = which(at.y * 4);
  int g = at.y;
  at.y -= start(s) >> 2;
  if (s == 0) copy(x0, u.x[0], at);
  else if (s == 1) copy(x1, u.x[1], at);
#if COUNT > 2
  else if (s == 2) copy(x2, u.x[2], at);
#endif
#if COUNT > 3
  else copy(x3, u.x[3], at);
#endif
  o0 = keep(activate(o0), g);
  o1 = keep(activate(o1), g);
  o2 = keep(activate(o2), g);
  o3 = keep(activate(o3), g);
}
#else
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
  at = min(at, ivec4(u.o.nchw.x - 1, at.y, u.o.nchw.zw - 1));
#if AXIS == 1 && !ALIGNED
  int c = at.y * 4, last = u.o.nchw.y - 1;
  return activate(vec4(
    channel(at, c), channel(at, min(c + 1, last)), channel(at, min(c + 2, last)), channel(at, min(c + 3, last))));
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
  return activate(read(s, at));
#endif
}
#endif
