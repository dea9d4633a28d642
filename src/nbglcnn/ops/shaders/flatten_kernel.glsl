// Elements 4t..4t+3 of a kernel in its parameter's own order, out of a texture packed by weights.conv_texture.
// u_width of the output in texels; u_order: 0 Conv's O,I,K; 1 ConvTranspose's I,O/groups,K; 2 Gemm's K,O; u_inputs
// of one of the convolution's u_groups; u_rows: output channel groups of a layer.
const int COLUMN_GROUPS = 1024;  // as codegen/weights.py

float weight(int index) {
  int outputs = u_outputs, inputs = u_inputs, taps = u_taps, groups = u_groups;
  index = min(index, outputs * inputs * taps - 1);
  int o, i, k;
  if (u_order == 0) {
    k = index % taps; i = index / taps % inputs; o = index / taps / inputs;
  } else if (u_order == 1) {
    int each = outputs / groups, row = index / taps / each;
    k = index % taps; i = row % inputs; o = row / inputs * each + index / taps % each;
  } else {
    o = index % outputs; k = index / outputs % taps; i = index / outputs / taps;
  }
  int part = i / 4 / COLUMN_GROUPS;
  ivec3 at = ivec3(i - part * COLUMN_GROUPS * 4, (part * u_rows + o / 4 % u_rows) * taps + k, o / 4 / u_rows);
  return lane(fetch(w0, at), o & 3);
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int first = (p.y * u_width + p.x) * 4;
  o0 = vec4(weight(first), weight(first + 1), weight(first + 2), weight(first + 3));
}
