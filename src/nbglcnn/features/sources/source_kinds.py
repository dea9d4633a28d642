"""The registry of source kinds; each kind is defined in its own file."""

from nbglcnn.features.latent.latent import Latent, LatentRecord
from nbglcnn.features.sources.drawing import Drawing, DrawingRecord
from nbglcnn.features.sources.images import Images, ImagesRecord
from nbglcnn.features.sources.input_source import InputSource
from nbglcnn.features.sources.noise import Noise, NoiseRecord
from nbglcnn.features.sources.picture import Picture, PictureRecord
from nbglcnn.features.sources.video import Video, VideoRecord
from nbglcnn.features.sources.webcam import Webcam, WebcamRecord

# The union of the records; a Viewer has at most one at a time.
Source = (
    WebcamRecord
    | VideoRecord
    | PictureRecord
    | ImagesRecord
    | DrawingRecord
    | NoiseRecord
    | LatentRecord
)
# The source classes by kind.
SOURCE_KINDS: dict[str, type[InputSource]] = {
    kind.kind: kind for kind in (Webcam, Video, Picture, Images, Drawing, Noise, Latent)
}
