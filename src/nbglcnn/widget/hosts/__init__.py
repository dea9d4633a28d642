"""What only one notebook host needs: private names of ipykernel and marimo."""
