// The largest scores of one image's vector, from the largest on, in two draws: of each stretch of scores the one that
// is largest, and MERGES: from these the ones of all. A stretch is only gone through again where its largest is taken.
// A texel is a score and its place; MERGES: two of them, the second one in z and w. A place of -1: there is none.
layout(location = 0) out vec4 o0;

struct Place {
  uint key;
  int at;
  float score;
};

// In the order of scores: NaN is the largest, as for torch.topk, and -0 equals 0. No score has 0.
uint key_of(float v) {
  uint bits = floatBitsToUint(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  if ((bits & 0x7fffffffu) == 0u) return 0x80000000u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// Keeps a score that is larger than the best so far, of those behind `last`; whether it is behind that.
bool consider(inout Place best, Place last, int at) {
  float v = flat_element(x0, u.x[0], u_image * u_scores + at);
  uint key = key_of(v);
  bool behind = key < last.key || (key == last.key && at > last.at);
  if (behind && key > best.key) best = Place(key, at, v);
  return behind;
}

void consider_stretch(inout Place best, Place last, int stretch) {
  int from = stretch * u_stretch, to = min(from + u_stretch, u_scores);
  for (int at = from; at < to; at++) consider(best, last, at);
}

const Place NONE = Place(0u, -1, 0.0);
const Place BEFORE_ALL = Place(0xffffffffu, -1, 0.0);

#if MERGES
Place next(Place last) {
  Place best = NONE;
  for (int k = 0; k < u_stretches; k++) {
    int line = over(k, u_width);
    int at = int(fetch(a, ivec3(k - line * u_width, line, 0)).y);
    if (!consider(best, last, at)) consider_stretch(best, last, k);
  }
  return best;
}

void main() {
  int pair = 2 * int(gl_FragCoord.x);
  Place one = BEFORE_ALL;
  for (int k = 0; k <= pair; k++) one = next(one);
  Place other = next(one);
  o0 = vec4(one.score, float(one.at), other.score, float(other.at));
}
#else
void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  Place best = NONE;
  consider_stretch(best, BEFORE_ALL, p.y * u_width + p.x);
  o0 = vec4(best.score, float(best.at), 0.0, 0.0);
}
#endif
