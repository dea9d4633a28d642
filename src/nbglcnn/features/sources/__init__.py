"""Sources of a Viewer's input: webcam, video, images, drawing or noise."""
