"""Where a Viewer's input comes from: a camera, a film, a data set, drawing, noise, a latent."""
