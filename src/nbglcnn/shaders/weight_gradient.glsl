// The gradient of a convolution's weights: of output channel o, input channel i and tap k the sum over images and
// places p of dy[n, o, p] · x[n, i, p · stride + k · dilation - begin]. Images go in parts, and places in strips of rows
// and columns, whose sums lie one after another in the output's first axis (ROWS a part) and are added up by a pass of
// their own.
// x0 is x, x1 is dy. i[0]: rows of the kernel, depth, rows and columns of dy; i[1]: strides, images; i[2]: dilations,
// input channels of a group; i[3]: begins, output channels of a group; i[4]: depth, rows and columns of x, ROWS;
// i[5]: strips of rows, of columns, rows and columns of one; i[6]: PERIOD, images of a part; i[7]: texels to the place a
// PERIOD further, down and across, in dy and in x.
#define STRIDE u.i[1].xyz
#define ROWS u.i[4].w

// What a fragment adds up: images from `first` to before `end`, places from `low` to before `high`. `tap` is where the
// pixel lies in x of the place 0.
struct Sum { int first, end; ivec3 tap, low, high; };

// Only places whose pixel lies within the map: division rounds down, also of what is negative.
Sum sum_of(int part, int row, int column) {
  int kz = quotient(row, u.i[0].x);
  ivec3 tap = ivec3(kz, row - kz * u.i[0].x, column) * u.i[2].xyz - u.i[3].xyz;
  ivec3 s = STRIDE, low, high;
  for (int d = 0; d < 3; d++) {
    low[d] = tap[d] < 0 ? quotient(s[d] - 1 - tap[d], s[d]) : 0;
    int last = u.i[4][d] - 1 - tap[d];
    high[d] = last < 0 ? 0 : min(u.i[0][d + 1], quotient(last, s[d]) + 1);
  }
  int across = quotient(part, u.i[5].y), batch = quotient(across, u.i[5].x);
  ivec2 strip = ivec2(across - batch * u.i[5].x, part - across * u.i[5].y) * u.i[5].zw;
  low.yz = max(low.yz, strip);
  high.yz = min(high.yz, strip + u.i[5].zw);
  int first = batch * u.i[6].z;
  return Sum(first, min(first + u.i[6].z, u.i[1].w), tap, low, high);
}
