"""The widget: what the user sees and asks. The only folder that imports anywidget."""
