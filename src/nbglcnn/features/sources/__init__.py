"""Where a Viewer's input comes from: a webcam, a film, pictures, a drawing or noise."""

from nbglcnn.features.sources.images import Images as Images
from nbglcnn.features.sources.public_sources import Drawing as Drawing
from nbglcnn.features.sources.public_sources import Noise as Noise
from nbglcnn.features.sources.public_sources import Picture as Picture
from nbglcnn.features.sources.public_sources import Webcam as Webcam
from nbglcnn.features.sources.video import Video as Video
