"""What a loader keeps of the images it decodes, and the stores on disk that hold it."""
