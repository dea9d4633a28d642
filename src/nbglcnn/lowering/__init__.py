"""From Graph to Plan: each operator's passes, fusion, the layer table and packed weights."""
