"""Colour maps and class colours, shared by the page and pictures from Python.

A colour map is a row of COLORMAP_TEXEL_COUNT colours. Viridis and magma are matplotlib's (by Stéfan
van der Walt and Nathaniel Smith, CC0), cividis is by Jamie Nuñez, Christopher Anderton and Ryan
Renslow.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Colormap = Literal["signed", "viridis", "cividis", "magma", "grey"]
Theme = Literal["light", "dark"]
Pixels = npt.NDArray[np.uint8]

COLORMAPS = ("signed", "viridis", "cividis", "magma", "grey")
# The stops of the signed colour map by theme, evenly spaced in linear light: from the most negative
# value, through zero, which has the page's background colour, to the most positive value.
SIGNED_STOPS = {
    "light": "#6b2b00 #c0560c #f09a4a #fbd9b3 #ffffff #c3ddf3 #6fa8d8 #2a6cb0 #0b2f63",
    "dark": "#ffd093 #f2953a #a8570c #4a290b #0f1216 #123a63 #216bab #4fa3ec #b5dcff",
}
# Class colours by class index: as different as possible, grey for the first class, which is usually
# the background, and no magenta. The following classes repeat the list in lighter and then in
# darker colours.
CLASS_COLORS = (
    "#8c8c8c #1f77b4 #e8720c #2ca02c #d62728 #8c6bb1 #7f5539 #17becf #bcbd22 #3f3fbf "
    "#00806a #ffb84d #8fce5a #5aa9e6 #b5562b #5c6f7b #d8c99b #c06a6a #4d8f3a #2f4b7c"
)
COLORMAP_TEXEL_COUNT = 512
SIGNED_ZERO_TEXEL = 256  # the signed map's texel for zero, 255 texels from both ends
NON_FINITE_COLOR = (255, 0, 255)  # for NaN and infinities
BACKGROUND = {"light": "#ffffff", "dark": "#1c1d1f"}  # of the page, outside a host

# 256 colours each, six hexadecimal digits per colour, from low to high.
VIRIDIS = (
    "44015444025645045745055946075a46085c460a5d460b5e470d60470e61471063471164471365481467481668"
    "48176948186a481a6c481b6d481c6e481d6f481f70482071482173482374482475482576482677482878482979"
    "472a7a472c7a472d7b472e7c472f7d46307e46327e46337f463480453581453781453882443983443a83443b84"
    "433d84433e85423f854240864241864142874144874045884046883f47883f48893e49893e4a893e4c8a3d4d8a"
    "3d4e8a3c4f8a3c508b3b518b3b528b3a538b3a548c39558c39568c38588c38598c375a8c375b8d365c8d365d8d"
    "355e8d355f8d34608d34618d33628d33638d32648e32658e31668e31678e31688e30698e306a8e2f6b8e2f6c8e"
    "2e6d8e2e6e8e2e6f8e2d708e2d718e2c718e2c728e2c738e2b748e2b758e2a768e2a778e2a788e29798e297a8e"
    "297b8e287c8e287d8e277e8e277f8e27808e26818e26828e26828e25838e25848e25858e24868e24878e23888e"
    "23898e238a8d228b8d228c8d228d8d218e8d218f8d21908d21918c20928c20928c20938c1f948c1f958b1f968b"
    "1f978b1f988b1f998a1f9a8a1e9b8a1e9c891e9d891f9e891f9f881fa0881fa1881fa1871fa28720a38620a486"
    "21a58521a68522a78522a88423a98324aa8325ab8225ac8226ad8127ad8128ae8029af7f2ab07f2cb17e2db27d"
    "2eb37c2fb47c31b57b32b67a34b67935b77937b87838b9773aba763bbb753dbc743fbc7340bd7242be7144bf70"
    "46c06f48c16e4ac16d4cc26c4ec36b50c46a52c56954c56856c66758c7655ac8645cc8635ec96260ca6063cb5f"
    "65cb5e67cc5c69cd5b6ccd5a6ece5870cf5773d05675d05477d1537ad1517cd2507fd34e81d34d84d44b86d549"
    "89d5488bd6468ed64590d74393d74195d84098d83e9bd93c9dd93ba0da39a2da37a5db36a8db34aadc32addc30"
    "b0dd2fb2dd2db5de2bb8de29bade28bddf26c0df25c2df23c5e021c8e020cae11fcde11dd0e11cd2e21bd5e21a"
    "d8e219dae319dde318dfe318e2e418e5e419e7e419eae51aece51befe51cf1e51df4e61ef6e620f8e621fbe723"
    "fde725"
)
CIVIDIS = (
    "00205100215300225500235600235800245900255a00255c00265d00275e00275f002860002961002962002a63"
    "002b64012b65022c65032d66042d67052e67052f6806306907306908316a09326a0b326a0c336b0d346b0e346b"
    "0f356c10366c12376c13376d14386d15396d17396d183a6d193b6d1a3b6d1c3c6e1d3d6e1e3e6e203e6e213f6e"
    "23406e24406e25416e27426e28436e29436e2b446e2c456e2e456e2f466e30476e32486e33486e34496e364a6e"
    "374a6e394b6e3a4c6e3b4d6e3d4d6e3e4e6e3f4f6e414f6e42506e43516d44526d46526d47536d48546d4a546d"
    "4b556d4c566d4d576d4e576e50586e51596e52596e535a6e545b6e565c6e575c6e585d6e595e6e5a5e6e5b5f6e"
    "5c606e5d616e5e616e60626e61636f62646f63646f64656f65666f66666f67676f6868706969706a69706b6a70"
    "6c6b706d6c706d6c716e6d716f6e71706f71716f71727071737172747172757272767372767472777473787573"
    "7976737a77737b77747b78747c79747d7a747e7a747f7b75807c75807d75817d75827e75837f76848076858076"
    "8581768682768783768884778984778985778a86778b87778c87778d88778e89788e8a788f8a78908b78918c78"
    "928d78938e78938e78948f789590789691789792789892789993789a94789b95789b96789c96789d97789e9878"
    "9f9978a09a78a19a78a29b78a39c78a49d78a59e77a69e77a79f77a8a077a9a177aaa276aba376aca376ada476"
    "aea575afa675b0a775b2a874b3a874b4a974b5aa73b6ab73b7ac72b8ad72baae72bbae71bcaf71bdb070beb170"
    "bfb26fc1b36fc2b46ec3b56dc4b56dc5b66cc7b76cc8b86bc9b96acaba6accbb69cdbc68cebc68cfbd67d1be66"
    "d2bf66d3c065d4c164d6c263d7c363d8c462d9c561dbc660dcc660ddc75fdec85ee0c95de1ca5ce2cb5ce3cc5b"
    "e4cd5ae6ce59e7cf58e8d058e9d157ead256ebd355ecd454edd453eed553f0d652f1d751f1d850f2d950f3da4f"
    "f4db4ef5dc4df6dd4df7de4cf8df4bf8e04bf9e14afae249fae349fbe448fbe548fce647fce746fde846fde946"
    "fdea45"
)
MAGMA = (
    "00000401000501010601010802010902020b02020d03030f03031204041405041606051806051a07061c08071e"
    "0907200a08220b09240c09260d0a290e0b2b100b2d110c2f120d31130d34140e36150e38160f3b180f3d19103f"
    "1a10421c10441d11471e114920114b21114e22115024125325125527125829115a2a115c2c115f2d11612f1163"
    "31116533106734106936106b38106c390f6e3b0f703d0f713f0f72400f74420f75440f76451077471078491078"
    "4a10794c117a4e117b4f127b51127c52137c54137d56147d57157e59157e5a167e5c167f5d177f5f187f601880"
    "621980641a80651a80671b80681c816a1c816b1d816d1d816e1e81701f81721f81732081752181762181782281"
    "7922827b23827c23827e24828025828125818326818426818627818827818928818b29818c29818e2a81902a81"
    "912b81932b80942c80962c80982d80992d809b2e7f9c2e7f9e2f7fa02f7fa1307ea3307ea5317ea6317da8327d"
    "aa337dab337cad347cae347bb0357bb2357bb3367ab5367ab73779b83779ba3878bc3978bd3977bf3a77c03a76"
    "c23b75c43c75c53c74c73d73c83e73ca3e72cc3f71cd4071cf4070d0416fd2426fd3436ed5446dd6456cd8456c"
    "d9466bdb476adc4869de4968df4a68e04c67e24d66e34e65e44f64e55064e75263e85362e95462ea5661eb5760"
    "ec5860ed5a5fee5b5eef5d5ef05f5ef1605df2625df2645cf3655cf4675cf4695cf56b5cf66c5cf66e5cf7705c"
    "f7725cf8745cf8765cf9785df9795df97b5dfa7d5efa7f5efa815ffb835ffb8560fb8761fc8961fc8a62fc8c63"
    "fc8e64fc9065fd9266fd9467fd9668fd9869fd9a6afd9b6bfe9d6cfe9f6dfea16efea36ffea571fea772fea973"
    "feaa74feac76feae77feb078feb27afeb47bfeb67cfeb77efeb97ffebb81febd82febf84fec185fec287fec488"
    "fec68afec88cfeca8dfecc8ffecd90fecf92fed194fed395fed597fed799fed89afdda9cfddc9efddea0fde0a1"
    "fde2a3fde3a5fde5a7fde7a9fde9aafdebacfcecaefceeb0fcf0b2fcf2b4fcf4b6fcf6b8fcf7b9fcf9bbfcfbbd"
    "fcfdbf"
)
SEQUENTIAL_COLORMAPS = {"viridis": VIRIDIS, "cividis": CIVIDIS, "magma": MAGMA}


def parse_colors(text: str) -> npt.NDArray[np.float64]:
    """Parse colours like "#1f77b4 #2ca02c" to RGB rows, 0 to 255."""
    return np.array([list(bytes.fromhex(word.lstrip("#"))) for word in text.split()], float)


@cache
def colormap_texels(colormap: Colormap, theme: Theme) -> Pixels:
    """Return a colour map as COLORMAP_TEXEL_COUNT×3 bytes; "signed" depends on the theme."""
    k = np.arange(COLORMAP_TEXEL_COUNT)
    if colormap == "signed":
        at = np.maximum(-1, (k - SIGNED_ZERO_TEXEL) / (SIGNED_ZERO_TEXEL - 1)) / 2 + 0.5
        return _to_bytes(interpolate_linear(parse_colors(SIGNED_STOPS[theme]), at))
    if colormap == "grey":
        return _to_bytes(np.repeat(k[:, None] / (COLORMAP_TEXEL_COUNT - 1) * 255, 3, axis=1))
    table = np.frombuffer(bytes.fromhex(SEQUENTIAL_COLORMAPS[colormap]), np.uint8).reshape(-1, 3)
    return table[np.minimum(len(table) - 1, k * len(table) // (COLORMAP_TEXEL_COUNT - 1))]


@cache
def class_colors() -> Pixels:
    """The class colours by class index: the listed ones, then lighter, then darker copies."""
    base = parse_colors(CLASS_COLORS)
    return _to_bytes(np.concatenate([base, base * 0.55 + 115, base * 0.55]))


def interpolate_linear(
    stops: npt.NDArray[np.float64], positions: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Interpolate evenly spaced stops from 0 to 1 in linear light (sRGB, IEC 61966-2-1)."""
    s = stops / 255
    linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
    place = positions * (len(stops) - 1)
    mixed = np.stack([np.interp(place, np.arange(len(stops)), linear[:, i]) for i in range(3)], -1)
    back = np.where(mixed <= 0.0031308, mixed * 12.92, 1.055 * mixed ** (1 / 2.4) - 0.055)
    return back * 255


def _to_bytes(colours: npt.NDArray[np.float64]) -> Pixels:
    return np.floor(colours + 0.5).astype(np.uint8)  # rounds as JavaScript does
