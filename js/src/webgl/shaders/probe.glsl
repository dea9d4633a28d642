// As many reads as a convolution makes, to see which way of reading is the faster here.
precision highp float;
precision highp int;
precision highp sampler2DArray;
#ifdef READ_TEXTURE
#define FETCH(s, p) texture(s, p)
#else
#define FETCH(s, p) textureLod(s, p, 0.0)
#endif
uniform sampler2DArray x0;
layout(location = 0) out vec4 o0;
void main() {
  vec2 size = vec2(textureSize(x0, 0).xy);
  vec2 at = gl_FragCoord.xy / size;
  // The count comes from a texture that holds zeros, so that no compiler unrolls the loop or drops it.
  int count = READS + int(FETCH(x0, vec3(at, 0.0)).x);
  vec4 sum = vec4(0.0);
  for (int k = 0; k < count; k++) {
    sum += FETCH(x0, vec3(at, 0.0)) * float(k);
    at.x += 1.0 / size.x;
  }
  o0 = sum;
}
