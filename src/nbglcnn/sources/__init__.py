"""Where a Viewer's input comes from: a webcam, a film, pictures, a drawing or noise."""

from nbglcnn.sources.given import Drawing as Drawing
from nbglcnn.sources.given import Noise as Noise
from nbglcnn.sources.given import Picture as Picture
from nbglcnn.sources.given import Webcam as Webcam
from nbglcnn.sources.images import Images as Images
from nbglcnn.sources.latent import Latent as Latent
from nbglcnn.sources.video import Video as Video
