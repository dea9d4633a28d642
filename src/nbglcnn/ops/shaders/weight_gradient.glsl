// The gradient of a convolution's weights: of output channel o, input channel i and tap k the sum over images and
// places p of dy[n, o, p] · x[n, i, p · stride + k · dilation - begin]. Images go in parts, and places in strips of rows
// and columns, whose sums lie one after another in the output's first axis (u_rows a part) and are added up by a pass of
// their own.
// x0 is x, x1 is dy. u_height of the kernel; u_places of dy and u_size of x have depth, rows and columns, as
// u_stride, u_dilation and u_padding (before) have; u_inputs and u_outputs: channels of a group; u_strips of rows
// and of columns, of u_strip rows and columns each; u_batch images of a part; u_step and u_step_x: texels to the
// place a PERIOD (u_period) further, down and across, in dy and in x.

// What a fragment adds up: images from `first` to before `end`, places from `low` to before `high`. `tap` is where the
// pixel lies in x of the place 0.
struct Sum { int first, end; ivec3 tap, low, high; };

// Only places whose pixel lies within the map: division rounds down, also of what is negative.
Sum sum_of(int part, int row, int column) {
  int kz = quotient(row, u_height);
  ivec3 tap = ivec3(kz, row - kz * u_height, column) * u_dilation - u_padding;
  ivec3 s = u_stride, low, high;
  for (int d = 0; d < 3; d++) {
    low[d] = tap[d] < 0 ? quotient(s[d] - 1 - tap[d], s[d]) : 0;
    int last = u_size[d] - 1 - tap[d];
    high[d] = last < 0 ? 0 : min(u_places[d], quotient(last, s[d]) + 1);
  }
  int across = quotient(part, u_strips.y), batch = quotient(across, u_strips.x);
  ivec2 strip = ivec2(across - batch * u_strips.x, part - across * u_strips.y) * u_strip;
  low.yz = max(low.yz, strip);
  high.yz = min(high.yz, strip + u_strip);
  int first = batch * u_batch;
  return Sum(first, min(first + u_batch, u_images), tap, low, high);
}
