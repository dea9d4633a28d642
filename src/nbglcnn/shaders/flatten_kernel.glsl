// Elements 4t..4t+3 of a kernel in its parameter's own order, out of a texture packed by weights.conv_texture.
// i[0]: width of the output in texels; order (0 Conv's O,I,K; 1 ConvTranspose's I,O/groups,K; 2 Gemm's K,O); outputs;
// input channels of one group. i[1]: taps, output channel groups of a layer, convolution groups.
const int COLUMN_GROUPS = 1024;  // as lowering/weights.py

float weight(int index) {
  int outputs = u.i[0].z, inputs = u.i[0].w, taps = u.i[1].x, groups = u.i[1].z;
  index = min(index, outputs * inputs * taps - 1);
  int o, i, k;
  if (u.i[0].y == 0) {
    k = index % taps; i = index / taps % inputs; o = index / taps / inputs;
  } else if (u.i[0].y == 1) {
    int each = outputs / groups, row = index / taps / each;
    k = index % taps; i = row % inputs; o = row / inputs * each + index / taps % each;
  } else {
    o = index % outputs; k = index / outputs % taps; i = index / outputs / taps;
  }
  int part = i / 4 / COLUMN_GROUPS;
  ivec3 at = ivec3(i - part * COLUMN_GROUPS * 4, (part * u.i[1].y + o / 4 % u.i[1].y) * taps + k, o / 4 / u.i[1].y);
  return lane(fetch(w0, at), o & 3);
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int first = (p.y * u.i[0].x + p.x) * 4;
  o0 = vec4(weight(first), weight(first + 1), weight(first + 2), weight(first + 3));
}
