"""Where a Viewer's input comes from: a webcam, a film, pictures, a drawing or noise."""
