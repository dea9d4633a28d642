// The gradient of a convolution's weights: of output channel o, input channel i and tap k the sum over images and
// places p of dy[n, o, p] · x[n, i, p · stride + k · dilation - begin]. Images go in parts, whose sums lie one after
// another in the output's first axis, ROWS output channels each, and are added up by a pass of their own.
// x0 is x, x1 is dy. i[0]: rows of the kernel, depth, rows and columns of dy; i[1]: strides, output channels of a
// group; i[2]: dilations, input channels of a group; i[3]: begins, images; i[4]: depth, rows and columns of x, images
// of a part; i[5]: ROWS, output channels.
vec4 inputs(int n, int first, int y, int x) {
#if GROUPED
  vec4 v = vec4(0.0);
  for (int k = 0; k < 4; k++) {
    if (first + k >= u.x[0].nchw.y) break;
    float e = element(x0, u.x[0], ivec4(n, first + k, y, x));
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
#else
  return texel(x0, u.x[0], ivec4(n, first >> 2, y, x));
#endif
}

vec4 pixel(ivec4 at) {
  int part = quotient(at.x, u.i[5].x), o = at.x - part * u.i[5].x;
  if (o >= u.i[5].y) return vec4(0.0);
  int first = 4 * at.y;
#if GROUPED
  first += quotient(o, u.i[1].w) * u.i[2].w;
#endif
  int kz = quotient(at.z, u.i[0].x);
  ivec3 tap = ivec3(kz, at.z - kz * u.i[0].x, at.w) * u.i[2].xyz - u.i[3].xyz;
  // The places whose pixel of x lies within the map. Division rounds down, also of what is negative.
  ivec3 s = u.i[1].xyz, low = ivec3(0), high = u.i[0].yzw;
  for (int d = 0; d < 3; d++) {
    low[d] = tap[d] < 0 ? quotient(s[d] - 1 - tap[d], s[d]) : 0;
    int last = u.i[4][d] - 1 - tap[d];
    high[d] = last < 0 ? 0 : min(u.i[0][d + 1], quotient(last, s[d]) + 1);
  }
  vec4 sum = vec4(0.0);
  int begin = part * u.i[4].w, end = min(begin + u.i[4].w, u.i[3].w);
  for (int n = begin; n < end; n++) {
    vec4 image = vec4(0.0);
    for (int z = low.x; z < high.x; z++) {
      for (int y = low.y; y < high.y; y++) {
        int row = z * u.i[0].z + y;
        int read = (z * s.x + tap.x) * u.i[4].y + y * s.y + tap.y;
        for (int x = low.z; x < high.z; x++) {
          image += element(x1, u.x[1], ivec4(n, o, row, x)) * inputs(n, first, read, x * s.z + tap.z);
        }
      }
    }
    sum += image;
  }
  return sum;
}
