"""What every room uses: errors with places, units, display of numbers, bounded files, resources."""
